//! header_builder: puts the headers before the payload.

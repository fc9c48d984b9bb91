//! skid_buffer: registers a stream in both directions.

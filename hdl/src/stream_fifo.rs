//! stream_fifo: FIFO of words in block RAM.

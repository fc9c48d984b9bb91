//! frame_fifo: store-and-forward FIFO of whole frames.

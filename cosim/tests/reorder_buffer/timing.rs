//! How fast the reorder buffer is, counted in clocks.

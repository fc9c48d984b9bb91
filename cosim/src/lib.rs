//! Builds Verilated models at run time, drives them and scores them against the golden model.

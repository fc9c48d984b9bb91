//! End-to-end tests of the workspace, and their data.

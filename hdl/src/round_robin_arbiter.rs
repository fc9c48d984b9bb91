//! round_robin_arbiter: a fair one-hot grant.

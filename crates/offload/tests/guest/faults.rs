//! Faults of the NIC, each with its named outcome.

//! The room `p4info`.

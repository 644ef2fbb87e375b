//! Cases in which the obvious rule is wrong, shown by the kernel.

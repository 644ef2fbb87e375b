//! Sizes of tests: full size normally, small under Miri, which is about a thousand times slower.

/// Returns `usual`, or `interpreted` under Miri. The latter must still be large enough to reach the
/// tested case.
pub(crate) const fn usual_or_interpreted(usual: usize, interpreted: usize) -> usize {
    if cfg!(miri) { interpreted } else { usual }
}

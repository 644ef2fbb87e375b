//! How much a test does: usually much, and little where Miri interprets it, which takes about a thousand times as long.

/// `usual`; where Miri runs the test, `interpreted`, which still has to reach what the test is about.
pub(crate) const fn usual_or_interpreted(usual: usize, interpreted: usize) -> usize {
    if cfg!(miri) { interpreted } else { usual }
}

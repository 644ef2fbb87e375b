//! The engines that every test runs on.

use std::sync::Arc;

use exec::Engine;

use crate::Stepwise;

/// All engines; the first is the one that defines the meaning.
pub fn engines() -> Vec<Arc<dyn Engine>> {
    vec![
        Arc::new(interp::Interp),
        Arc::new(Stepwise(interp::Interp)),
        Arc::new(jit()),
        Arc::new(Stepwise(jit())),
    ]
}

/// Native code; the interpreter tells its steps.
fn jit() -> jit::Jit {
    jit::Jit::new(Arc::new(interp::Interp))
}

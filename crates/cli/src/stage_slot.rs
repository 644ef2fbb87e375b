//! Stage slots on the command line.

/// A stage slot.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// The one with this number.
    Number(u32),
    /// Any free one.
    Any,
}

/// Reads a stage slot.
///
/// # Errors
/// It is neither a number nor `any`.
pub(crate) fn read_slot(word: &str) -> Result<Slot, String> {
    match word {
        "any" => Ok(Slot::Any),
        number => number.parse().map(Slot::Number).map_err(|_| {
            "give the number of a stage slot (`polyplane tenant slots`), or `any`".to_owned()
        }),
    }
}

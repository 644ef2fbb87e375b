//! Export of a table's entries to other processors.

use super::Table;
use crate::engine::{self, ExportError, ImageRule};

impl Table {
    /// Returns a classifier image of the entries: bytes that a program on another processor
    /// searches (docs/reference/classifier-image.md). The result of a search is the
    /// [`EntryId`](crate::EntryId) of the entry that [`Lookup::find`](crate::Lookup::find) finds.
    ///
    /// The time is that of learning independent sets and of a plan for the other rules: some
    /// seconds for 100,000 entries.
    ///
    /// # Errors
    /// The key has more than eight words or a range that is signed or wider than 64 bits, or there
    /// are too many entries.
    pub fn classifier_image(&self) -> Result<Vec<u8>, ExportError> {
        let rule = |entry: std::sync::Arc<crate::Entry>| {
            let number = u32::try_from(entry.id.0);
            Ok(ImageRule {
                matches: entry.matches.clone(),
                rank: self.rank(&entry.matches, entry.priority, entry.id),
                number: number.map_err(|_| ExportError::EntryNumber(entry.id))?,
            })
        };
        let rules = self.iter().map(rule).collect::<Result<_, _>>()?;
        engine::image(&self.shape, rules)
    }
}

//! Text tables: rows of cells with aligned columns.

/// Formats rows under a head, with aligned columns.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    align(&all)
}

/// Pads a cell to the width of its column. `format!` cannot do it, because its widths end at
/// 65,535.
pub fn padded(cell: &str, width: usize) -> String {
    let missing = width.saturating_sub(cell.chars().count());
    let spaces = std::iter::repeat_n(' ', missing);
    cell.chars().chain(spaces).collect()
}

/// Formats rows with aligned columns. The last cell of a row does not widen its column. No line
/// ends with a space.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() > column + 1);
        cells
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, &width)| padded(cell, width) + "  ")
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

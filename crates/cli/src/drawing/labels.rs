//! Places of labels on lines, where they cover nothing.

use plotters::prelude::*;

use super::{Area, Drawn, Point, SMALL, centred, text_width};

/// Height of a label, and space around it.
const HEIGHT: i32 = 13;
const SPACE: i32 = 3;

/// Places along a line at which a label may be, in hundredths, the best one first.
const PLACES: [i32; 17] = [
    50, 44, 56, 38, 62, 33, 67, 29, 71, 25, 75, 21, 79, 17, 83, 13, 87,
];

/// The labels of a picture.
pub(crate) struct Labels {
    /// The corners of what may not be covered.
    taken: Vec<[Point; 2]>,
    labels: Vec<(String, Point)>,
}

impl Labels {
    /// Begins with the boxes that no label may cover.
    pub(crate) fn new(boxes: impl Iterator<Item = [Point; 2]>) -> Labels {
        Labels {
            taken: boxes.collect(),
            labels: Vec::new(),
        }
    }

    /// Adds a label on a line, where nothing is yet, or where it covers least.
    pub(crate) fn add(&mut self, text: String, (from, to): (Point, Point)) {
        let half = (text_width(&text, SMALL.1) / 2 + SPACE, HEIGHT / 2 + 1);
        let candidates = PLACES.map(|share| {
            let at = |a: i32, b: i32| a + (b - a) * share / 100;
            let (x, y) = (at(from.0, to.0), at(from.1, to.1));
            [(x - half.0, y - half.1), (x + half.0, y + half.1)]
        });
        let covered =
            |own: &[Point; 2]| -> i32 { self.taken.iter().map(|other| common(own, other)).sum() };
        if let Some(place) = candidates.into_iter().min_by_key(covered) {
            self.taken.push(place);
            let [(left, top), (right, bottom)] = place;
            self.labels
                .push((text, ((left + right) / 2, (top + bottom) / 2)));
        }
    }

    /// Draws the labels on a ground of their own.
    pub(crate) fn draw(&self, area: &Area<'_>) -> Drawn {
        for (text, (x, y)) in &self.labels {
            let half = (text_width(text, SMALL.1) / 2 + SPACE, HEIGHT / 2);
            let corners = [(x - half.0, y - half.1), (x + half.0, y + half.1)];
            area.draw(&Rectangle::new(corners, WHITE.filled()))?;
            area.draw(&Text::new(text.clone(), (*x, *y), centred(SMALL)))?;
        }
        Ok(())
    }
}

/// Returns the area that two rectangles have in common.
fn common([a, b]: &[Point; 2], [c, d]: &[Point; 2]) -> i32 {
    let side = |low: i32, high: i32| (high - low).max(0);
    side(a.0.max(c.0), b.0.min(d.0)) * side(a.1.max(c.1), b.1.min(d.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_crossing_lines_are_beside_each_other() {
        let boxes = [[(0, 0), (40, 40)], [(0, 160), (40, 200)]];
        let mut labels = Labels::new(boxes.into_iter());
        for number in 0..2 {
            labels.add("100 kB".to_owned(), ((20, 20), (20, 180)));
            labels.add("100 kB".to_owned(), ((number, 100), (200, 100)));
        }
        for (index, own) in labels.taken.iter().enumerate() {
            let others = labels.taken[..index].iter();
            assert_eq!(others.map(|other| common(own, other)).sum::<i32>(), 0);
        }
    }
}

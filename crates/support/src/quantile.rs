//! Quantiles of measured values.

/// Returns the value at the rank nearest to `share` of the way from the smallest to the largest
/// value, or `None` if there are none. Sorts the values. The result is always one of the values.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = values.len().saturating_sub(1) as f64 * share;
    values.get(at.round() as usize).copied()
}

/// Returns the median, or `None` if there are no values: of an even number of values, the upper
/// one of the middle two. Sorts the values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the smallest of the sorted values such that at least the fraction `share` of the values
/// is at most this value (nearest-rank method), or `None` if there are none.
pub fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_of_the_list() {
        let mut values = [5.0, 1.0, 3.0, 2.0, 4.0];
        let quantiles = [0.0, 0.25, 0.5, 0.9, 1.0].map(|share| quantile(&mut values, share));
        assert_eq!(quantiles, [1.0, 2.0, 3.0, 5.0, 5.0].map(Some));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_the_upper_one() {
        for n in 1..20 {
            let mut values: Vec<f64> = (0..n).rev().map(f64::from).collect();
            assert_eq!(median(&mut values), Some(f64::from(n / 2)), "{n}");
        }
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn the_nearest_rank_covers_its_share_of_the_values() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        let ranks = [0.0, 0.25, 0.5, 0.51, 0.9, 1.0].map(|share| nearest_rank(&sorted, share));
        assert_eq!(ranks, [1.0, 1.0, 2.0, 3.0, 4.0, 4.0].map(Some));
        assert_eq!(nearest_rank(&[], 0.5), None);
    }
}

//! SIMD comparison of several numbers with one, if the processor supports it.
//!
//! There are two operations. The first counts the elements of a sorted group of 16 that are not
//! greater than a number. The second finds the rules, in a group of eight, that a key does not
//! match.

use std::hint::select_unpredictable;

/// Number of elements in a sorted group.
pub(crate) const FAN: usize = 16;

/// Method of counting the numbers that are not greater than another one. A value of an implementing
/// type is a proof that the processor has the instructions that it uses.
pub(crate) trait Count<T>: Copy {
    /// Returns the number of elements that are at most `number`. `numbers` is sorted, and its first
    /// element is at most `number`.
    fn up_to(self, numbers: &[T; FAN], number: T) -> usize;
}

/// Work that counts numbers. This is a trait and not a closure, because [`run`](Self::run) must be
/// `#[inline(always)]`.
pub(crate) trait CountWork {
    /// Does the work. Everything that it calls must be inlined as well.
    fn run(self, count: impl Count<u32> + Count<u64>);
}

/// Runs `work` with the fastest method: 16 comparisons at once (AVX-512), eight at once (AVX2),
/// otherwise binary search.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub(crate) fn counting_numbers(work: impl CountWork) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("avx512f")
    {
        // SAFETY:
        // - The processor has the four instruction set extensions that the function is compiled
        //   for.
        return unsafe { with_wide_comparisons(work) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("avx2")
    {
        // SAFETY:
        // - The processor has the four instruction set extensions that the function is compiled
        //   for.
        return unsafe { with_comparisons(work) };
    }
    work.run(ByHalves);
}

/// Branch-free binary search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByHalves;

impl<T: Copy + Ord> Count<T> for ByHalves {
    #[inline(always)]
    fn up_to(self, numbers: &[T; FAN], number: T) -> usize {
        let mut last = 0;
        for step in [8, 4, 2, 1] {
            let next = last | step;
            last = select_unpredictable(numbers[next] <= number, next, last);
        }
        last + 1
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f")]
fn with_wide_comparisons(work: impl CountWork) {
    work.run(wide::Sixteen::new());
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
fn with_comparisons(work: impl CountWork) {
    work.run(wide::Eight::new());
}

/// Number of rules that are compared with a key at once.
pub(crate) const LANES: usize = 8;

/// Method of comparing a number with those of several rules, which are stored next to each other. A
/// value of an implementing type is a proof that the processor has the instructions that it uses.
pub(crate) trait Compare: Copy {
    /// Returns the rules that the number does not match, one bit each. Rule `i` matches if the
    /// number equals `a[i]` in all bits that are set in both `b[i]` and `within`.
    fn differing(self, number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32;

    /// Returns the rules that the number does not match, one bit each. Rule `i` matches if the
    /// number is from `a[i] & within` to `b[i] & within`. The number has no bits outside of
    /// `within`.
    fn outside(self, number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32;
}

/// Work that compares rules. This is a trait and not a closure, because [`run`](Self::run) must be
/// `#[inline(always)]`.
pub(crate) trait CompareWork {
    /// Does the work. Everything that it calls must be inlined as well.
    fn run(self, compare: impl Compare);
}

/// Runs `work` with the fastest method: eight comparisons at once (AVX-512), otherwise a loop that
/// the compiler may vectorize.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub(crate) fn comparing_rules(work: impl CompareWork) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY:
            // - The processor has the four instruction set extensions that the function is compiled
            //   for.
            return unsafe { with_wide_rules(work) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY:
            // - The processor has the four instruction set extensions that the function is compiled
            //   for.
            return unsafe { with_rules(work) };
        }
    }
    work.run(Lanewise);
}

/// Compares one rule after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanewise;

impl Lanewise {
    #[inline(always)]
    fn bits(is_set: impl Fn(usize) -> bool) -> u32 {
        (0..LANES).fold(0, |bits, lane| bits | u32::from(is_set(lane)) << lane)
    }
}

impl Compare for Lanewise {
    #[inline(always)]
    fn differing(self, number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32 {
        Self::bits(|lane| (number ^ a[lane]) & b[lane] & within != 0)
    }

    #[inline(always)]
    fn outside(self, number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32 {
        Self::bits(|lane| (number < a[lane] & within) | (number > b[lane] & within))
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f")]
fn with_wide_rules(work: impl CompareWork) {
    work.run(wide::Sixteen::new());
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
fn with_rules(work: impl CompareWork) {
    work.run(Lanewise);
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{ByHalves, Compare, Count, FAN, LANES};
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_max_epu32,
        _mm256_movemask_epi8, _mm256_packs_epi32, _mm256_set1_epi32, _mm512_and_si512,
        _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_cmplt_epu64_mask,
        _mm512_loadu_si512, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_test_epi64_mask,
        _mm512_xor_si512,
    };

    /// AVX-512: compares 16 numbers of 32 bits, or eight of 64 bits, at once. A value exists only
    /// if the processor has the instructions, see [`new`](Self::new).
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Sixteen(());

    impl Sixteen {
        #[inline]
        #[target_feature(enable = "popcnt,avx512f")]
        pub(super) fn new() -> Self {
            Self(())
        }
    }

    impl Count<u32> for Sixteen {
        #[inline(always)]
        #[expect(unsafe_code)]
        fn up_to(self, numbers: &[u32; FAN], number: u32) -> usize {
            // SAFETY:
            // - A value of `Sixteen` exists only if the processor has the instructions.
            unsafe { up_to_32(numbers, number) }
        }
    }

    impl Count<u64> for Sixteen {
        #[inline(always)]
        #[expect(unsafe_code)]
        fn up_to(self, numbers: &[u64; FAN], number: u64) -> usize {
            // SAFETY:
            // - As above.
            unsafe { up_to_64(numbers, number) }
        }
    }

    impl Compare for Sixteen {
        #[inline(always)]
        #[expect(unsafe_code)]
        fn differing(self, number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32 {
            // SAFETY:
            // - As above.
            unsafe { differing(number, a, b, within) }
        }

        #[inline(always)]
        #[expect(unsafe_code)]
        fn outside(self, number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32 {
            // SAFETY:
            // - As above.
            unsafe { outside(number, a, b, within) }
        }
    }

    #[inline]
    #[target_feature(enable = "popcnt,avx512f")]
    fn differing(number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32 {
        let bits = _mm512_xor_si512(_mm512_set1_epi64(number as i64), load(a));
        let bits = _mm512_and_si512(bits, load(b));
        _mm512_test_epi64_mask(bits, _mm512_set1_epi64(within as i64)).into()
    }

    #[inline]
    #[target_feature(enable = "popcnt,avx512f")]
    fn outside(number: u64, a: &[u64; LANES], b: &[u64; LANES], within: u64) -> u32 {
        let number = _mm512_set1_epi64(number as i64);
        let within = _mm512_set1_epi64(within as i64);
        let (a, b) = (
            _mm512_and_si512(load(a), within),
            _mm512_and_si512(load(b), within),
        );
        (_mm512_cmplt_epu64_mask(number, a) | _mm512_cmplt_epu64_mask(b, number)).into()
    }

    #[inline]
    #[target_feature(enable = "popcnt,avx512f")]
    fn up_to_32(numbers: &[u32; FAN], number: u32) -> usize {
        let number = _mm512_set1_epi32(number as i32);
        let no_greater = _mm512_cmple_epu32_mask(load(numbers), number);
        no_greater.count_ones() as usize
    }

    #[inline]
    #[target_feature(enable = "popcnt,avx512f")]
    fn up_to_64(numbers: &[u64; FAN], number: u64) -> usize {
        let number = _mm512_set1_epi64(number as i64);
        let (halves, _) = numbers.as_chunks::<8>();
        let counts =
            [0, 1].map(|half| _mm512_cmple_epu64_mask(load(&halves[half]), number).count_ones());
        (counts[0] + counts[1]) as usize
    }

    /// AVX2: compares eight numbers of 32 bits at once. A value exists only if the processor has
    /// the instructions, see [`new`](Self::new).
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Eight(());

    impl Eight {
        #[inline]
        #[target_feature(enable = "popcnt,avx2")]
        pub(super) fn new() -> Self {
            Self(())
        }
    }

    impl Count<u32> for Eight {
        #[inline(always)]
        #[expect(unsafe_code)]
        fn up_to(self, numbers: &[u32; FAN], number: u32) -> usize {
            // SAFETY:
            // - A value of `Eight` exists only if the processor has the instructions.
            unsafe { eight_twice(numbers, number) }
        }
    }

    // Comparing four numbers at a time would take more instructions than the four steps of a binary
    // search.
    impl Count<u64> for Eight {
        #[inline(always)]
        fn up_to(self, numbers: &[u64; FAN], number: u64) -> usize {
            ByHalves.up_to(numbers, number)
        }
    }

    #[inline]
    #[target_feature(enable = "popcnt,avx2")]
    #[expect(unsafe_code)]
    fn eight_twice(numbers: &[u32; FAN], number: u32) -> usize {
        let number = _mm256_set1_epi32(number as i32);
        let (halves, _) = numbers.as_chunks::<8>();
        let no_greater = |half: &[u32; 8]| {
            // SAFETY:
            // - The array has 32 bytes.
            // - The load needs no alignment.
            let half: __m256i = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
            _mm256_cmpeq_epi32(_mm256_max_epu32(half, number), number)
        };
        // Two bytes of ones for each number that is not greater.
        let both = _mm256_packs_epi32(no_greater(&halves[0]), no_greater(&halves[1]));
        _mm256_movemask_epi8(both).count_ones() as usize / 2
    }

    /// Loads the 64 bytes of these numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code)]
    fn load<T, const N: usize>(numbers: &[T; N]) -> __m512i {
        const { assert!(size_of::<[T; N]>() == size_of::<__m512i>()) };
        // SAFETY:
        // - The array has 64 bytes (asserted above).
        // - The load needs no alignment.
        unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bits::one;
    use proptest::prelude::*;

    /// Sorted numbers and one to compare them with.
    struct Question<T> {
        numbers: [T; FAN],
        number: T,
    }

    impl<T: Copy + Ord> Question<T> {
        fn new(mut numbers: [T; FAN], number: T) -> Self {
            numbers.sort_unstable();
            numbers[0] = numbers[0].min(number);
            Self { numbers, number }
        }

        fn answer(&self) -> usize {
            self.numbers
                .iter()
                .filter(|&&other| other <= self.number)
                .count()
        }

        #[inline(always)]
        fn ask(&self, count: impl Count<T>) -> usize {
            count.up_to(&self.numbers, self.number)
        }
    }

    struct Both<'q>(&'q Question<u32>, &'q Question<u64>, &'q mut [usize; 2]);

    impl CountWork for Both<'_> {
        #[inline(always)]
        fn run(self, count: impl Count<u32> + Count<u64>) {
            *self.2 = [self.0.ask(count), self.1.ask(count)];
        }
    }

    /// Runs `work` with the AVX2 method, and returns true if the processor supports it.
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code)]
    fn by_eights(work: impl CountWork) -> bool {
        let can = std::is_x86_feature_detected!("popcnt")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("avx2");
        if can {
            // SAFETY:
            // - The processor has the four instruction set extensions that the function is compiled
            //   for.
            unsafe { with_comparisons(work) };
        }
        can
    }

    proptest! {
        #[test]
        fn numbers_are_counted_as_one_by_one(
            small in any::<[u32; FAN]>(),
            large in any::<[u64; FAN]>(),
            (at, is_other) in (0..FAN, any::<bool>()),
            (small_other, large_other) in (any::<u32>(), any::<u64>()),
        ) {
            let small = Question::new(small, if is_other { small_other } else { small[at] });
            let large = Question::new(large, if is_other { large_other } else { large[at] });
            let answers = [small.answer(), large.answer()];
            let mut counted = [0; 2];
            counting_numbers(Both(&small, &large, &mut counted));
            prop_assert_eq!(counted, answers);
            #[cfg(target_arch = "x86_64")]
            if by_eights(Both(&small, &large, &mut counted)) {
                prop_assert_eq!(counted, answers);
            }
            prop_assert_eq!([small.ask(ByHalves), large.ask(ByHalves)], answers);
        }
    }

    /// Eight rules (two numbers each), the number to compare, and the mask of relevant bits.
    struct Rules([u64; LANES], [u64; LANES], u64, u64);

    struct Compared<'r>(&'r Rules, &'r mut [u32; 2]);

    impl Rules {
        #[inline(always)]
        fn ask(&self, compare: impl Compare) -> [u32; 2] {
            let Self(a, b, number, within) = self;
            [
                compare.differing(*number, a, b, *within),
                compare.outside(number & within, a, b, *within),
            ]
        }

        fn answer(&self, lane: usize) -> [bool; 2] {
            let Self(a, b, number, within) = self;
            let (lo, hi, value) = (a[lane] & within, b[lane] & within, number & within);
            [value & b[lane] != lo & b[lane], !(lo..=hi).contains(&value)]
        }
    }

    impl CompareWork for Compared<'_> {
        #[inline(always)]
        fn run(self, compare: impl Compare) {
            *self.1 = self.0.ask(compare);
        }
    }

    proptest! {
        #[test]
        fn rules_are_compared_as_one_by_one(
            numbers in any::<[[u64; LANES]; 2]>(),
            (number, within) in (any::<u64>(), any::<u64>()),
            few in 0u32..64,
        ) {
            // Few bits, so that some rules match.
            let few = one::mask(few);
            let rules = Rules(numbers[0].map(|a| a & few), numbers[1].map(|b| b & few), number, within & few);
            let mut compared = [0; 2];
            comparing_rules(Compared(&rules, &mut compared));
            let answer = |which: usize| (0..LANES).map(|lane| u32::from(rules.answer(lane)[which]) << lane).sum::<u32>();
            prop_assert_eq!(compared, [answer(0), answer(1)]);
            prop_assert_eq!(rules.ask(Lanewise), compared);
        }
    }
}

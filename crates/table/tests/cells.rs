//! Tests of counters, registers and meters.

use bits::{Value, limbs_for};
use proptest::prelude::*;
use table::*;

#[test]
fn counters_count_what_their_kind_says() {
    let check = |kind, packets, bytes| {
        let counters = CounterArray::new(kind, 3);
        counters.count(CounterShard::new(0), 1, 100).unwrap();
        counters.count(CounterShard::new(0), 1, 20).unwrap();
        assert_eq!(counters.read(1), Some(CounterReading { packets, bytes }));
        assert_eq!(counters.read(0), Some(CounterReading::default()));
        assert_eq!(
            counters.iter().map(|reading| reading.packets).sum::<u64>(),
            packets
        );
        counters
            .write(
                2,
                CounterReading {
                    packets: 7,
                    bytes: 8,
                },
            )
            .unwrap();
        assert_eq!(
            counters.read(2),
            Some(CounterReading {
                packets: 7,
                bytes: 8
            })
        );
        counters.clear();
        assert_eq!(counters.read(2), Some(CounterReading::default()));
    };
    check(CounterKind::Packets, 2, 0);
    check(CounterKind::Bytes, 0, 120);
    check(CounterKind::PacketsAndBytes, 2, 120);
}

#[test]
fn an_index_beyond_the_end_is_none_and_does_nothing() {
    let counters = CounterArray::new(CounterKind::Packets, 3);
    assert_eq!(
        (
            counters.count(CounterShard::new(0), 3, 1),
            counters.read(u64::MAX)
        ),
        (None, None)
    );
    assert_eq!(
        counters.iter().map(|reading| reading.packets).sum::<u64>(),
        0
    );
    let registers = RegisterArray::new(70, 3);
    let mut dst = [9, 9];
    assert_eq!(
        (registers.write(3, &[1, 1]), registers.read(3, &mut dst)),
        (None, None)
    );
    assert_eq!((dst, registers.get(u64::MAX)), ([9, 9], None));
    let meters = MeterArray::new(MeterUnit::Packets, 3);
    assert_eq!(meters.execute(3, Color::Green, 1, 0), None);
    let config = MeterConfig::TwoRate {
        cir: 1,
        cburst: 1,
        pir: 1,
        pburst: 1,
    };
    assert_eq!(
        meters.configure(3, config).unwrap_err().to_string(),
        "meter 3 does not exist: there are 3"
    );
}

proptest! {
    #[test]
    fn registers_equal_a_list_of_values(
        width in 1u32..200,
        writes in proptest::collection::vec((0u64..12, proptest::collection::vec(any::<u64>(), 4)), 0..40),
    ) {
        let registers = RegisterArray::new(width, 10);
        let mut model = vec![Value::zero(width); 10];
        for (index, limbs) in writes {
            let value = Value::from_limbs(&limbs, width);
            let written = registers.write(index, value.limbs());
            prop_assert_eq!(written.is_some(), index < 10);
            if written.is_some() {
                model[index as usize] = value;
            }
        }
        for (index, want) in model.iter().enumerate() {
            let mut dst = vec![0; limbs_for(width)];
            registers.read(index as u64, &mut dst).unwrap();
            prop_assert_eq!(&dst[..], want.limbs());
            prop_assert_eq!(registers.get(index as u64), Some(want.clone()));
        }
        registers.clear();
        prop_assert!(registers.get(9).unwrap().is_zero());
    }
}

const SECOND: u64 = 1_000_000_000;

fn meter(unit: MeterUnit, cir: u64, cburst: u64, pir: u64, pburst: u64) -> MeterCell {
    let meter = MeterCell::new(unit);
    meter
        .configure(MeterConfig::TwoRate {
            cir,
            cburst,
            pir,
            pburst,
        })
        .unwrap();
    meter
}

/// Meters packets of `bytes` at times in milliseconds, and compares the colours by first letter.
fn check(meter: &MeterCell, pre_color: Color, bytes: u64, times_ms: &[u64], expect: &str) {
    let colors: String = times_ms
        .iter()
        .map(|ms| match meter.execute(pre_color, bytes, ms * 1_000_000) {
            Color::Green => 'g',
            Color::Yellow => 'y',
            Color::Red => 'r',
        })
        .collect();
    assert_eq!(colors, expect);
}

#[test]
fn a_burst_drains_the_committed_bucket_and_then_the_peak_bucket() {
    // Committed bucket 3, peak bucket 5: three green, two yellow, then red.
    let meter = meter(MeterUnit::Packets, 1, 3, 2, 5);
    check(&meter, Color::Green, 64, &[0; 7], "gggyyrr");
    // After 0.5 s: peak 1 (two per second), committed 0 (one per second, whole tokens).
    check(&meter, Color::Green, 64, &[500, 500], "yr");
    // At 1 s: peak 0 + 1, committed 1.
    check(&meter, Color::Green, 64, &[1000, 1000], "gr");
    // At 60 s both buckets are full again, and not more than full.
    check(&meter, Color::Green, 64, &[60_000; 7], "gggyyrr");
}

#[test]
fn a_red_packet_takes_nothing_and_a_yellow_one_takes_from_the_peak_only() {
    let meter = meter(MeterUnit::Bytes, 1000, 1500, 2000, 3000);
    // Peak 3000, committed 1500: 1000 green leaves 2000 and 500; 1000 yellow leaves 1000 and 500.
    check(&meter, Color::Green, 1000, &[0, 0], "gy");
    // 1001 is more than the peak bucket has. It takes nothing, so that 500 and 500 still fit.
    check(&meter, Color::Green, 1001, &[0], "r");
    check(&meter, Color::Green, 500, &[0, 0, 0], "gyr");
    // 250 ms: peak 500, committed 250. 250 green leaves 250 and 0; 250 yellow.
    check(&meter, Color::Green, 250, &[250, 250, 250], "gyr");
}

#[test]
fn a_packet_larger_than_the_burst_never_passes() {
    let meter = meter(MeterUnit::Bytes, 1_000_000, 100, 1_000_000, 1000);
    check(&meter, Color::Green, 1001, &[0, 5000], "rr");
    check(&meter, Color::Green, 101, &[10_000, 20_000], "yy");
}

#[test]
fn colour_aware_metering_never_improves_a_colour() {
    // RFC 2698, section 3: a yellow packet is not checked against the committed bucket.
    let meter = meter(MeterUnit::Packets, 0, 2, 0, 4);
    check(&meter, Color::Red, 64, &[0, 0], "rr");
    check(&meter, Color::Yellow, 64, &[0, 0], "yy");
    check(&meter, Color::Green, 64, &[0, 0, 0], "ggr");
}

#[test]
fn a_meter_that_is_not_configured_marks_green() {
    let meter = MeterCell::new(MeterUnit::Bytes);
    assert_eq!(meter.config(), None);
    check(&meter, Color::Green, 9000, &[0, 0, 0], "ggg");
    let config = MeterConfig::TwoRate {
        cir: 0,
        cburst: 0,
        pir: 0,
        pburst: 0,
    };
    meter.configure(config).unwrap();
    assert_eq!(meter.config(), Some(config));
    check(&meter, Color::Green, 1, &[0, 5000], "rr");
    meter.reset();
    check(&meter, Color::Green, 1, &[5000], "g");
}

#[test]
fn a_new_configuration_fills_the_buckets() {
    let meter = meter(MeterUnit::Packets, 1000, 1, 1000, 1);
    let late = 3600 * SECOND;
    assert_eq!(meter.execute(Color::Green, 64, late), Color::Green);
    assert_eq!(meter.execute(Color::Green, 64, late), Color::Red);
    // A slower rate has generated fewer tokens by now. The old level must not count against it.
    meter
        .configure(MeterConfig::TwoRate {
            cir: 1,
            cburst: 1,
            pir: 1,
            pburst: 1,
        })
        .unwrap();
    assert_eq!(meter.execute(Color::Green, 64, late), Color::Green);
    assert_eq!(meter.execute(Color::Green, 64, late), Color::Red);
    assert_eq!(meter.execute(Color::Green, 64, late + SECOND), Color::Green);
}

#[test]
fn a_committed_rate_above_the_peak_is_refused() {
    let meters = MeterArray::new(MeterUnit::Bytes, 1);
    let error = meters.configure(
        0,
        MeterConfig::TwoRate {
            cir: 2,
            cburst: 1,
            pir: 1,
            pburst: 1,
        },
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "the committed rate 2 is above the peak rate 1"
    );
    assert_eq!(meters.config(0), None);
}

proptest! {
    /// Textbook token bucket: refill for the elapsed time, limited to the burst.
    #[test]
    fn meters_equal_buckets_that_are_refilled(
        cir in 0u64..4, extra in 0u64..4, cburst in 0i64..6, pburst in 0i64..6,
        gaps in proptest::collection::vec(0u64..4, 1..60), start in prop_oneof![Just(0), Just(EPOCH_TIME)],
    ) {
        // Rates per nanosecond, so that every refill is a whole number.
        let (pir, scale) = (cir + extra, SECOND);
        let meter = meter(MeterUnit::Packets, cir * scale, cburst as u64, pir * scale, pburst as u64);
        let (mut peak, mut committed, mut now) = (pburst, cburst, start);
        for gap in gaps {
            now += gap;
            peak = pburst.min(peak + (gap * pir) as i64);
            committed = cburst.min(committed + (gap * cir) as i64);
            let expect = if peak < 1 {
                Color::Red
            } else {
                peak -= 1;
                if committed < 1 { Color::Yellow } else { committed -= 1; Color::Green }
            };
            prop_assert_eq!(meter.execute(Color::Green, 64, now), expect);
        }
    }
}

/// A time in November 2023, in nanoseconds since 1970.
const EPOCH_TIME: u64 = 1_700_000_000_000_000_000;

#[test]
fn meters_keep_their_rates_at_all_times_and_at_extreme_rates() {
    for start in [0, EPOCH_TIME, u64::MAX - 70 * SECOND] {
        // 10,000 packets of 1000 bytes in ten seconds. 400 and 700 per second may pass, and the
        // burst of two.
        let meter = meter(MeterUnit::Bytes, 400_000, 2000, 700_000, 2000);
        let mut count = [0; 3];
        for ms in 0..10_000 {
            count[meter.execute(Color::Green, 1000, start + ms * 1_000_000) as usize] += 1;
        }
        assert_eq!(count, [4001, 3000, 2999], "from {start}");
        for rate in [1 << 40, i64::MAX as u64, u64::MAX] {
            let meter = self::meter(MeterUnit::Packets, rate, 2, rate, 2);
            let at = |gap: u64| {
                let now = start + gap;
                [(); 3].map(|()| meter.execute(Color::Green, 64, now))
            };
            // Each nanosecond fills the bucket, however much or little time passes.
            for gap in [0, 1, 2, SECOND, 60 * SECOND] {
                assert_eq!(at(gap), [Color::Green, Color::Green, Color::Red], "{rate}");
            }
        }
    }
}

#[test]
fn extreme_rates_and_times_do_not_overflow() {
    let meter = meter(MeterUnit::Bytes, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    for now in [0, 1, u64::MAX / 2, u64::MAX] {
        assert_eq!(meter.execute(Color::Green, 9000, now), Color::Green);
    }
    // Time that goes backwards finds fewer tokens in the bucket, never more.
    let meter = self::meter(MeterUnit::Packets, 1, 1, 1, 1);
    assert_eq!(meter.execute(Color::Green, 1, 10 * SECOND), Color::Green);
    assert_eq!(meter.execute(Color::Green, 1, 5 * SECOND), Color::Red);
    assert_eq!(meter.execute(Color::Green, 1, 11 * SECOND), Color::Green);
}

fn single_rate(unit: MeterUnit, cir: u64, cburst: u64, eburst: u64) -> MeterCell {
    let meter = MeterCell::new(unit);
    let config = MeterConfig::SingleRate {
        cir,
        cburst,
        eburst,
    };
    meter.configure(config).unwrap();
    assert_eq!(meter.config(), Some(config));
    meter
}

#[test]
fn a_single_rate_fills_the_excess_bucket_with_what_the_committed_one_cannot_take() {
    let meter = single_rate(MeterUnit::Packets, 1, 2, 3);
    check(&meter, Color::Green, 64, &[0; 7], "ggyyyrr");
    // Three seconds add three tokens: two committed, one excess.
    check(&meter, Color::Green, 64, &[3000; 5], "ggyrr");
    // One second at a time never fills the committed bucket, so nothing overflows.
    check(&meter, Color::Green, 64, &[4000, 5000, 6000, 6000], "gggr");
    check(&meter, Color::Green, 64, &[60_000; 7], "ggyyyrr");
}

#[test]
fn a_single_rate_without_excess_has_two_colours() {
    let meter = single_rate(MeterUnit::Bytes, 1000, 1500, 0);
    check(&meter, Color::Green, 1000, &[0, 0, 500, 500], "grgr");
}

#[test]
fn a_packet_that_was_yellow_takes_from_the_excess_bucket_only() {
    let meter = single_rate(MeterUnit::Packets, 1, 2, 1);
    check(&meter, Color::Yellow, 64, &[0, 0, 1000], "yry");
    check(&meter, Color::Red, 64, &[2000, 3000], "rr");
    check(&meter, Color::Green, 64, &[3000; 4], "ggyr");
}

proptest! {
    /// RFC 2697, section 3, token by token.
    #[test]
    fn single_rates_equal_the_rfc_s_buckets(
        cir in 0u64..4, cburst in 0u64..6, eburst in 0u64..6, start in prop_oneof![Just(0), Just(EPOCH_TIME)],
        packets in proptest::collection::vec((0u64..4, 0u64..4, 0u8..3), 1..60),
    ) {
        let meter = single_rate(MeterUnit::Bytes, cir * SECOND, cburst, eburst);
        let (mut committed, mut excess, mut now) = (cburst, eburst, start);
        for (gap, bytes, before) in packets {
            now += gap;
            for _ in 0..gap * cir {
                match (committed < cburst, excess < eburst) {
                    (true, _) => committed += 1,
                    (false, true) => excess += 1,
                    (false, false) => {}
                }
            }
            let before = [Color::Green, Color::Yellow, Color::Red][usize::from(before)];
            let expect = if before == Color::Green && committed >= bytes {
                committed -= bytes;
                Color::Green
            } else if before != Color::Red && excess >= bytes {
                excess -= bytes;
                Color::Yellow
            } else {
                Color::Red
            };
            prop_assert_eq!(meter.execute(before, bytes, now), expect);
        }
    }
}

#[test]
fn packets_on_many_threads_take_each_token_once() {
    let meter = meter(MeterUnit::Packets, 0, 1000, 0, 3000);
    let colors = std::thread::scope(|scope| {
        let worker = || {
            (0..2000)
                .map(|_| meter.execute(Color::Green, 64, 7))
                .collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect::<Vec<_>>()
    });
    let count = |color| colors.iter().filter(|&&c| c == color).count();
    assert_eq!(
        (count(Color::Green), count(Color::Yellow), count(Color::Red)),
        (1000, 2000, 5000)
    );
}

//! Tests of ranges, ticks and scales.

use super::*;
use proptest::prelude::*;

fn labels(ticks: &[Tick]) -> Vec<&str> {
    ticks.iter().map(|tick| tick.label.as_str()).collect()
}

/// Whether a number is a whole multiple of 1, 2 or 5 times a power of ten as large as the step
/// between ticks, judged by its decimal digits.
fn assert_round(ticks: &[Tick]) {
    let step = ticks[1].value - ticks[0].value;
    let exponent = magnitude(step * (1.0 + 1e-6));
    let unit = 10f64.powi(exponent);
    let mantissa = (step / unit).round();
    assert!([1.0, 2.0, 5.0].contains(&mantissa), "step {step} of {ticks:?}");
    for tick in ticks {
        let count = tick.value / (mantissa * unit);
        assert!((count - count.round()).abs() < 1e-4, "{tick:?} of {ticks:?}");
    }
}

#[test]
fn ticks_people_would_choose() {
    let ticks = linear_ticks(Range { lo: 0.0, hi: 1.0 });
    assert_eq!(labels(&ticks), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(ticks[3].value, 0.6, "exactly the decimal number");
    let ticks = linear_ticks(Range { lo: -3.0, hi: 12.0 });
    assert_eq!(labels(&ticks), ["-4", "-2", "0", "2", "4", "6", "8", "10", "12"]);
    let ticks = linear_ticks(Range { lo: 0.0, hi: 3e-5 });
    assert_eq!(labels(&ticks)[..3], ["0", "5e-6", "1.0e-5"]);
    let ticks = log_ticks(Range { lo: 0.03, hi: 2.3 });
    assert_eq!(labels(&ticks), ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]);
    let ticks = log_ticks(Range { lo: 1e-8, hi: 100.0 });
    assert_eq!(labels(&ticks)[..3], ["1e-8", "1e-7", "1e-6"]);
    assert_eq!(ticks.len(), 11);
}

#[test]
fn equal_values_get_room_around_them() {
    for value in [5.0, -5.0, 1e-200, 0.0, 1e300, f64::MAX, f64::MIN_POSITIVE] {
        let range = Range::of([value, value]).expect("finite");
        let axis = Axis::covering(range, false);
        assert!(axis.ticks.len() >= 3, "{value}: {axis:?}");
        assert!((0.0..=1.0).contains(&axis.position(value)));
    }
    assert_eq!(Axis::covering(Range { lo: 5.0, hi: 5.0 }, false).position(5.0), 0.5);
}

#[test]
fn whole_axes_have_no_tick_between_whole_numbers() {
    let axis = Axis::fitted(Range { lo: 1.0, hi: 3.0 }, true);
    assert_eq!(labels(&axis.ticks), ["1", "2", "3"]);
    let axis = Axis::fitted(Range { lo: 4.0, hi: 4.0 }, true);
    assert_eq!(labels(&axis.ticks), ["4"]);
    let axis = Axis::fitted(Range { lo: 0.0, hi: 1_000_000.0 }, true);
    assert_eq!(axis.ticks.last().map(|tick| tick.label.as_str()), Some("1\u{202f}000\u{202f}000"));
}

#[test]
fn no_finite_value_has_no_range() {
    assert_eq!(Range::of([]), None);
    assert_eq!(Range::of([f64::NAN, f64::INFINITY]), None);
    assert_eq!(Range::of([f64::NAN, 2.0, 1.0]), Some(Range { lo: 1.0, hi: 2.0 }));
}

/// Numbers of every size, more of them near 1 than far away.
fn number() -> impl Strategy<Value = f64> {
    (-1.0..1.0f64, prop_oneof![4 => -6..7i32, 1 => -280..280i32])
        .prop_map(|(mantissa, exponent)| mantissa * 10f64.powi(exponent))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn linear_ticks_cover_the_range_and_are_round(a in number(), b in number()) {
        let range = Range::of([a, b]).expect("finite");
        let ticks = linear_ticks(range);
        prop_assert!((3..=11).contains(&ticks.len()), "{:?}", ticks);
        prop_assert!(ticks[0].value <= range.lo && range.hi <= ticks[ticks.len() - 1].value);
        prop_assert!(ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
        prop_assert!(ticks.windows(2).all(|pair| pair[0].label != pair[1].label), "{:?}", ticks);
        assert_round(&ticks);
        let inside = Axis::fitted(range, false).ticks.len();
        prop_assert!((3..=11).contains(&inside), "{} inside {:?}", inside, range);
    }

    #[test]
    fn log_ticks_cover_the_range_and_are_round(a in number(), b in number()) {
        prop_assume!(a != 0.0 && b != 0.0);
        let range = Range::of([a.abs(), b.abs()]).expect("finite");
        let ticks = log_ticks(range);
        prop_assert!((3..=11).contains(&ticks.len()), "{:?}", ticks);
        prop_assert!(ticks[0].value > 0.0 && ticks[0].value <= range.lo);
        prop_assert!(range.hi <= ticks[ticks.len() - 1].value && range.hi.is_finite());
        prop_assert!(ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
        let one_two_five = ticks.iter().all(|tick| {
            let mantissa = tick.value / 10f64.powi(magnitude(tick.value * (1.0 + 1e-9)));
            [1.0, 2.0, 5.0].iter().any(|round| (mantissa - round).abs() < 1e-6)
        });
        if !one_two_five {
            assert_round(&ticks);
        }
    }

    #[test]
    fn positions_keep_the_order(a in number(), b in number(), c in any::<f64>(), log: bool) {
        prop_assume!(c.is_finite());
        let range = if log { Range::of([a.abs(), b.abs()]) } else { Range::of([a, b]) };
        let axis = Axis::covering(range.expect("finite"), log);
        let (p, q, r) = (axis.position(a), axis.position(b), axis.position(c));
        prop_assert!([p, q, r].iter().all(|p| (0.0..=1.0).contains(p)));
        prop_assert!((a <= b) == (p <= q) || p == q);
    }
}

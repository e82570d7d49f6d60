//! Tests of the quantiser, and of its agreement with the exporter.

use proptest::prelude::*;

use super::*;

const ALL: [ScaleMethod; 3] = [ScaleMethod::Search, ScaleMethod::Exporter, ScaleMethod::MaxAbs];

struct Quantised {
    nibbles: Vec<u8>,
    scales: Vec<f32>,
    deviation: QuantisationError,
}

impl Quantised {
    fn new(how: ScaleMethod, row: &[f32], group: usize) -> Self {
        let (mut nibbles, mut scales) = (vec![0; row.len() / 2], vec![0.0; row.len() / group]);
        let deviation = quantise_row(how, row, group, &mut nibbles, &mut scales).unwrap();
        Self { nibbles, scales, deviation }
    }

    fn numbers(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.nibbles.len() * 2];
        dequantise_row(&self.nibbles, &self.scales, &mut out);
        out
    }

    fn squared_error(&self, row: &[f32]) -> f64 {
        self.numbers().iter().zip(row).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
    }
}

/// The weights that `tests/data/quantise.py` describes.
fn golden_row(row: u32) -> Vec<f32> {
    let noise = |column: u32| {
        let index = u64::from(row * 256 + column);
        let mut z = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let sum: u32 = [0, 16, 32, 48].map(|shift| u32::try_from(z >> shift & 0xFFFF).unwrap()).iter().sum();
        (f64::from(sum) - 131_070.0) / 524_288.0
    };
    let weight = |column: u32| match row {
        0 => 0.0,
        1 => noise(column) * 2f64.powi(-30),
        2 if column % 64 == 5 => 100.0,
        2 => noise(column),
        3 => (f64::from(column % 31) - 15.0) / 2.0,
        4 => -noise(column).abs(),
        5 => -0.75,
        6 => noise(column) * 2f64.powi(-100),
        _ => noise(column) * 2f64.powi(i32::try_from(row % 8).unwrap() - 4),
    };
    #[allow(clippy::cast_possible_truncation, reason = "the numbers were made to be exact")]
    (0..256).map(|column| weight(column) as f32).collect()
}

#[test]
fn the_exporters_bits() {
    let mut golden = include_bytes!("../../tests/data/quantise.bin").as_slice();
    for how in [ScaleMethod::Exporter, ScaleMethod::MaxAbs] {
        for group in [8, 32, 64, 256] {
            let rows: Vec<_> = (0..24).map(|row| Quantised::new(how, &golden_row(row), group)).collect();
            for (row, ours) in rows.iter().enumerate() {
                let nibbles = golden.split_off(..128).unwrap();
                assert_eq!(ours.nibbles, nibbles, "{how:?}, groups of {group}, row {row}");
            }
            for (row, ours) in rows.iter().enumerate() {
                let bytes = golden.split_off(..256 / group * 4).unwrap();
                let scales: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
                assert_eq!(ours.scales, scales, "{how:?}, groups of {group}, row {row}");
            }
        }
    }
    assert!(golden.is_empty());
}

#[test]
fn zeros_stay_zeros() {
    for how in ALL {
        for zero in [0.0, -0.0] {
            let quantised = Quantised::new(how, &[zero; 64], 32);
            assert_eq!(quantised.nibbles, [0x88; 32], "{how:?}");
            assert!(quantised.scales.iter().all(|scale| scale.is_finite() && *scale > 0.0), "{how:?}");
            assert!(quantised.deviation.is_lossless());
            assert_eq!(quantised.deviation.relative_error(), 0.0);
        }
    }
}

#[test]
fn numbers_that_are_not_finite_are_named() {
    for how in ALL {
        for (column, value) in [(0, f32::INFINITY), (17, f32::NEG_INFINITY), (63, f32::NAN)] {
            let mut row = [0.5; 64];
            row[column] = value;
            let found = quantise_row(how, &row, 32, &mut [0; 32], &mut [0.0; 2]).unwrap_err();
            assert_eq!(found.column, column, "{how:?}");
            assert_eq!(found.value.to_bits(), value.to_bits(), "{how:?}");
        }
    }
}

/// Groups that were quantised before come back as they are, whichever end of the range their extreme is at.
#[test]
fn search_finds_the_scale_that_a_group_was_made_with() {
    for scale in [0.03f32, -0.03] {
        let row: Vec<f32> = (0..32u8).map(|index| (f32::from(index * 7 % 16) - 8.0) * scale).collect();
        let quantised = Quantised::new(ScaleMethod::Search, &row, 32);
        assert!(quantised.deviation.relative_error() < 1e-6, "{:?}", quantised.deviation);
        assert_eq!(quantised.scales[0].signum(), scale.signum());
    }
}

#[test]
fn search_is_better_than_the_exporter_on_average() {
    let error = |how| {
        (7..24)
            .map(|row| Quantised::new(how, &golden_row(row), 32).deviation)
            .fold(QuantisationError::default(), QuantisationError::merge)
    };
    let [search, exporter, max_abs] = ALL.map(|how| error(how).relative_error());
    assert!(search < exporter * 0.95 && exporter < max_abs, "{search} {exporter} {max_abs}");
}

#[test]
fn groups_that_fit() {
    assert!(fits(64, 32) && fits(64, 64) && fits(8, 8));
    assert!(!fits(64, 0) && !fits(64, 4) && !fits(96, 64) && !fits(60, 20));
}

fn rows() -> impl Strategy<Value = (Vec<f32>, usize)> {
    let shapes = prop_oneof![Just((64, 32)), Just((64, 8)), Just((128, 128)), Just((80, 40))];
    let number = prop_oneof![
        8 => -1.0..1.0f32,
        1 => Just(0.0),
        1 => -100.0..100.0f32,
        1 => any::<f32>().prop_filter("finite, with room for sums", |value| value.abs() < 1e37),
    ];
    (shapes, prop_oneof![Just(1.0), Just(1e-30), Just(1e-41), Just(1e-3)]).prop_flat_map(move |((columns, group), unit)| {
        let row = prop::collection::vec(number.clone(), columns);
        row.prop_map(move |row| (row.into_iter().map(|value: f32| value * unit).collect(), group))
    })
}

proptest! {
    #[test]
    fn search_is_never_worse((row, group) in rows()) {
        let error = |how| Quantised::new(how, &row, group).squared_error(&row);
        prop_assert!(error(ScaleMethod::Search) <= error(ScaleMethod::MaxAbs));
    }

    #[test]
    fn every_number_is_rounded_to_the_nearest_level((row, group) in rows()) {
        for how in ALL {
            let quantised = Quantised::new(how, &row, group);
            let numbers = quantised.numbers();
            for (index, (&number, &original)) in numbers.iter().zip(&row).enumerate() {
                let scale = quantised.scales[index / group];
                prop_assert!(scale.is_finite() && scale != 0.0);
                let ideal = (f64::from(original) / f64::from(scale)).clamp(-8.0, 7.0);
                let level = f64::from(number) / f64::from(scale);
                prop_assert!((ideal - level).abs() <= 0.5 + 1e-5, "{how:?}: {original} became {number}, scale {scale}");
            }
        }
    }

    #[test]
    fn the_deviation_is_that_of_the_numbers((row, group) in rows()) {
        for how in ALL {
            let quantised = Quantised::new(how, &row, group);
            let numbers = quantised.numbers();
            let greatest = numbers.iter().zip(&row).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            prop_assert_eq!(quantised.deviation.max_error(), greatest);
            let weight: f64 = row.iter().map(|&value| f64::from(value).powi(2)).sum();
            let relative = if greatest == 0.0 { 0.0 } else { (quantised.squared_error(&row) / weight).sqrt() };
            prop_assert!((quantised.deviation.relative_error() - relative).abs() <= 1e-9 * relative);
        }
    }
}

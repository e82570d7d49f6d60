use super::*;

fn lines(outer: u32, length: u32, inner: u32) -> Lines {
    Lines { outer, length, inner }
}

const SIZES: [u32; 16] = [1, 2, 3, 4, 7, 31, 32, 33, 64, 255, 257, 1000, 4096, 65_536, 1 << 20, 1 << 24];

#[test]
fn every_item_is_in_one_part_and_parts_stay_within_what_is_reserved() {
    for outer in SIZES {
        for length in SIZES {
            for inner in SIZES {
                let numbers = [outer, length, inner].into_iter().map(u64::from).fold(1, u64::saturating_mul);
                if numbers > 1 << 30 {
                    continue;
                }
                let shape = lines(outer, length, inner);
                for pass in [Pass::over_numbers(shape), Pass::over_folded(shape)] {
                    let Pass { splits, chunk, slices, .. } = pass;
                    assert!(splits * chunk >= pass.lines.length && (splits - 1) * chunk < pass.lines.length, "{pass:?}");
                    assert!(slices.is_power_of_two() && slices <= THREADS, "{pass:?}");
                    assert!(!pass.is_split() || pass.parts() <= worst_parts(numbers, length.into(), inner), "{pass:?}");
                    assert!(!pass.is_split() || !Pass::over_folded(pass.rest()).is_split(), "{pass:?}");
                }
            }
        }
    }
    assert_eq!(Pass::over_numbers(lines(5, 0, 1)).parts(), 5);
}

#[test]
fn rows_are_read_by_fours_and_columns_together() {
    let share = |outer, length, inner| {
        let pass = Pass::over_numbers(lines(outer, length, inner));
        (pass.wide, pass.slices, pass.splits)
    };
    // Long rows, short ones, and some whose length is no multiple of 4.
    assert_eq!(share(4096, 4096, 1), (true, 128, 1));
    assert_eq!(share(1 << 20, 16, 1), (true, 1, 1));
    assert_eq!(share(4096, 4095, 1), (false, 256, 1));
    // Everything to one number, columns, and a dimension in the middle fill the GPU with parts.
    assert_eq!(share(1, 1 << 24, 1), (true, 256, 2048));
    assert_eq!(share(1, 4096, 4096), (false, 8, 16));
    assert_eq!(share(64, 4096, 64), (false, 8, 16));
    // Where lines are enough nothing is split, and where they are short either.
    assert_eq!(share(1, 4096, 1 << 16), (false, 8, 1));
    assert_eq!(share(1, 512, 1), (true, 32, 1));
}

use super::*;

fn rows(outer: u32, length: u32, inner: u32) -> RowShape {
    RowShape { outer, length, inner }
}

const SIZES: [u32; 16] = [1, 2, 3, 4, 7, 31, 32, 33, 64, 255, 257, 1000, 4096, 65_536, 1 << 20, 1 << 24];

#[test]
fn every_load_is_in_one_segment_and_segments_fit_the_reserved_scratch() {
    for outer in SIZES {
        for length in SIZES {
            for inner in SIZES {
                let numbers = [outer, length, inner].into_iter().map(u64::from).fold(1, u64::saturating_mul);
                if numbers > 1 << 30 {
                    continue;
                }
                let shape = rows(outer, length, inner);
                for pass in [ReducePass::over_elements(shape), ReducePass::over_partials(shape)] {
                    let ReducePass { splits, chunk, threads_per_segment, .. } = pass;
                    assert!(splits * chunk >= pass.shape.length && (splits - 1) * chunk < pass.shape.length, "{pass:?}");
                    assert!(threads_per_segment.is_power_of_two() && threads_per_segment <= THREADS, "{pass:?}");
                    assert!(!pass.is_split() || pass.segments() <= max_partials(numbers, length.into(), inner), "{pass:?}");
                    assert!(!pass.is_split() || !ReducePass::over_partials(pass.partials_shape()).is_split(), "{pass:?}");
                }
            }
        }
    }
    assert_eq!(ReducePass::over_elements(rows(5, 0, 1)).segments(), 5);
}

#[test]
fn contiguous_rows_are_vectorised_and_strided_rows_coalesced() {
    let share = |outer, length, inner| {
        let pass = ReducePass::over_elements(rows(outer, length, inner));
        (pass.vec4, pass.threads_per_segment, pass.splits)
    };
    // Long rows, short ones, and some whose length is no multiple of 4.
    assert_eq!(share(4096, 4096, 1), (true, 128, 1));
    assert_eq!(share(1 << 20, 16, 1), (true, 1, 1));
    assert_eq!(share(4096, 4095, 1), (false, 256, 1));
    // A full reduction, strided rows, and a middle dimension fill the GPU by splitting rows.
    assert_eq!(share(1, 1 << 24, 1), (true, 256, 2048));
    assert_eq!(share(1, 4096, 4096), (false, 8, 16));
    assert_eq!(share(64, 4096, 64), (false, 8, 16));
    // Enough rows or short rows are not split.
    assert_eq!(share(1, 4096, 1 << 16), (false, 8, 1));
    assert_eq!(share(1, 512, 1), (true, 32, 1));
}

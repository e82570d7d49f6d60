//! Formats numbers for people.

/// Formats a count with separators: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats bytes in the largest unit that leaves a digit before the point: `512 B`, `1.5 KiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    // A value that rounds to 1024.0 is 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a time in the largest unit that leaves a digit before the point: `12.3 µs`, `4.56 s`.
pub(crate) fn time(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)];
    let (unit, size) = UNITS.into_iter().find(|(_, size)| seconds >= 0.9995 * size).unwrap_or(UNITS[3]);
    let value = seconds / size;
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// Formats a count with its noun: `1 call`, `2 calls`.
pub(crate) fn plural(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_stand_before_every_third_digit() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn bytes_choose_their_unit() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (1_048_576, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn times_have_three_digits() {
        for (seconds, text) in [
            (0.0, "0.00 ns"),
            (1.234_5e-6, "1.23 µs"),
            (0.012_34, "12.3 ms"),
            (0.999_6, "1.00 s"),
            (0.999_4, "999 ms"),
            (123.4, "123 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(plural(0, "call"), "0 calls");
        assert_eq!(plural(1, "call"), "1 call");
        assert_eq!(plural(1200, "call"), "1,200 calls");
    }
}

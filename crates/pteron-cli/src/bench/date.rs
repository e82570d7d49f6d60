//! Days and times of day, in UTC.

use std::time::{Duration, SystemTime};

const DAY: u64 = 24 * 60 * 60;

/// A moment as `2026-11-15T14:43:35Z`.
pub(super) fn iso(moment: SystemTime) -> String {
    let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since: Duration| since.as_secs());
    let (year, month, day) = civil(seconds / DAY);
    let of_day = seconds % DAY;
    let [hour, minute, second] = [of_day / 3600, of_day / 60 % 60, of_day % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of the month of a day that is so many after 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    // Four centuries have the same number of days, whichever they are.
    const CYCLE: u64 = 146_097;
    let mut year = 1970 + 400 * (days / CYCLE);
    days %= CYCLE;
    while days >= year_days(year) {
        days -= year_days(year);
        year += 1;
    }
    let mut month = 1;
    while days >= month_days(year, month) {
        days -= month_days(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn year_days(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (13_574_563_200, "2400-02-29T00:00:00Z"),
        ] {
            assert_eq!(iso(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}

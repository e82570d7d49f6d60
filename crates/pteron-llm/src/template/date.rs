//! Dates for templates. No clock is read here: the caller passes the time.

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A time in the calendar.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    weekday: i64,
    day_of_year: i64,
    second: i64,
}

impl Civil {
    /// From seconds since 1970, without leap seconds.
    fn new(unix: i64) -> Self {
        let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
        // Years start in March, so that the leap day is the last day; 400 years always have the same number of days.
        let since_march_0 = days + 719_468;
        let (era, day_of_era) = (since_march_0.div_euclid(146_097), since_march_0.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_march_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_march_year + 2) / 153;
        let day = day_of_march_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let leap = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let day_of_year = if month <= 2 { day_of_march_year - 305 } else { day_of_march_year + 60 + leap };
        Self { year, month, day, weekday: (days + 4).rem_euclid(7), day_of_year, second }
    }
}

fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

/// Formats a time, in seconds since 1970 UTC, as Python's `strftime` does.
///
/// # Errors
/// The first directive that is not known.
pub fn strftime(unix: i64, format: &str) -> Result<String, String> {
    // Far more than any calendar needs, and far from overflow.
    let time = Civil::new(unix.clamp(-1 << 40, 1 << 40));
    let (hour, minute) = (time.second / 3600, time.second / 60 % 60);
    let hour_of_12 = (hour + 11) % 12 + 1;
    let (month, weekday) = (name(&MONTHS, time.month - 1), name(&WEEKDAYS, time.weekday));
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut directive = characters.next();
        let unpadded = directive == Some('-');
        if unpadded {
            directive = characters.next();
        }
        let mut number = |value: i64, width: usize| {
            let width = if unpadded { 0 } else { width };
            out.push_str(&format!("{value:0width$}"));
        };
        match directive {
            Some('Y') => number(time.year, 4),
            Some('y') => number(time.year.rem_euclid(100), 2),
            Some('m') => number(time.month, 2),
            Some('d') => number(time.day, 2),
            Some('j') => number(time.day_of_year, 3),
            Some('H') => number(hour, 2),
            Some('I') => number(hour_of_12, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(time.second % 60, 2),
            Some('w') => number(time.weekday, 1),
            Some('B') => out.push_str(month),
            Some('b') => out.push_str(&month[..3]),
            Some('A') => out.push_str(weekday),
            Some('a') => out.push_str(&weekday[..3]),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('%') => out.push('%'),
            other => return Err(format!("strftime_now does not know %{}", other.map(String::from).unwrap_or_default())),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_python() {
        let all = "%Y-%m-%d %H:%M:%S %I%p %a %A %b %B %j %y %w %% %-d %-I";
        assert_eq!(strftime(0, all).unwrap(), "1970-01-01 00:00:00 12AM Thu Thursday Jan January 001 70 4 % 1 12");
        let text = strftime(1_709_251_199, all).unwrap();
        assert_eq!(text, "2024-02-29 23:59:59 11PM Thu Thursday Feb February 060 24 4 % 29 11");
        assert_eq!(strftime(1_735_689_600 - 1, "%d %b %Y %j").unwrap(), "31 Dec 2024 366");
        assert_eq!(strftime(951_782_400, "%F").unwrap_err(), "strftime_now does not know %F");
        assert_eq!(strftime(-1, "%Y-%m-%d %j").unwrap(), "1969-12-31 365");
        assert!(strftime(i64::MAX, "%Y").is_ok() && strftime(i64::MIN, "%Y %b %a").is_ok());
        assert!(strftime(0, "%").is_err());
    }

    #[test]
    fn days_of_the_year_count_up() {
        for day in 0..3000i64 {
            let (today, tomorrow) = (Civil::new(day * 86_400), Civil::new((day + 1) * 86_400));
            let new_year = tomorrow.month == 1 && tomorrow.day == 1;
            assert_eq!(tomorrow.day_of_year, if new_year { 1 } else { today.day_of_year + 1 }, "{day}");
        }
    }
}

//! Dates in UTC, for reports. The calendar itself is that of chat templates, in `pteron-llm`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time as `2026-11-15T14:43:35Z`; the start of 1970 for clocks before it.
pub(crate) fn iso(moment: SystemTime) -> String {
    pteron_llm::template::strftime(unix_seconds(moment).unwrap_or(0), "%Y-%m-%dT%H:%M:%SZ").unwrap_or_default()
}

fn unix_seconds(moment: SystemTime) -> Option<i64> {
    i64::try_from(moment.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (13_574_563_200, "2400-02-29T00:00:00Z"),
        ] {
            assert_eq!(iso(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}

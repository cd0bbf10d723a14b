//! Active hours: the times of the week at which an agent may act, in UTC.

use std::fmt::Write;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::rules::PolicyValue;
use bardo_base::text::SafeText;

const DAY_MINUTES: u32 = 24 * 60;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Weekday of 1 January 1970, a Thursday.
const EPOCH_DAY: u64 = 3;

/// Error of a text that is not a period of the week.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoursError {
    /// Not days and times.
    #[error("`{0}` is not a time range: write \"Mon-Fri 08:00-18:00\"")]
    Form(SafeText),
    /// Its end is before its beginning.
    #[error("`{0}` is not a time range: write \"Mon-Fri 08:00-18:00\" (it ends before it starts: split it in two)")]
    Backwards(SafeText),
}

/// Intervals of the week in minutes since Monday 00:00 UTC, ascending and disjoint; `None` for always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TradingHours(Option<Vec<(u32, u32)>>);

impl TradingHours {
    /// No restriction on the time.
    pub const ALWAYS: Self = Self(None);

    /// Returns true if `millis`, in milliseconds since the Unix epoch, is inside.
    pub fn contains(&self, millis: u64) -> bool {
        let minute = minute_of_week(millis);
        self.0.as_ref().is_none_or(|all| all.iter().any(|(from, to)| (*from..*to).contains(&minute)))
    }

    /// Returns the intervals as text for display.
    pub fn describe(&self) -> String {
        format!("{} UTC", self.shown().replace(['"', '[', ']'], ""))
    }

    /// Returns the seconds from `millis` to the start of the next interval; `None` without intervals.
    pub fn opens_in(&self, millis: u64) -> Option<u64> {
        let now = minute_of_week(millis);
        let week = DAY_MINUTES * 7;
        let stretches = self.0.as_ref()?;
        let minutes = stretches.iter().map(|(from, _)| (from + week - now) % week).min()?;
        Some((u64::from(minutes) * 60).saturating_sub(millis / 1_000 % 60))
    }

    fn parse(list: &[String]) -> Result<Self, HoursError> {
        let mut stretches = Vec::new();
        for text in list {
            let wrong = || HoursError::Form(SafeText::clean(text, 60));
            let (days, time) = text.split_once(' ').ok_or_else(wrong)?;
            let (from, to) = time.split_once('-').ok_or_else(wrong)?;
            let (from, to) = (minutes(from).ok_or_else(wrong)?, minutes(to).ok_or_else(wrong)?);
            let (first, last) = days.split_once('-').unwrap_or((days, days));
            let (first, last) = (day(first).ok_or_else(wrong)?, day(last).ok_or_else(wrong)?);
            if from >= to || first > last {
                return Err(HoursError::Backwards(SafeText::clean(text, 60)));
            }
            stretches.extend((first..=last).map(|day| (day * DAY_MINUTES + from, day * DAY_MINUTES + to)));
        }
        stretches.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::new();
        for (from, to) in stretches {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        Ok(Self(Some(apart)))
    }
}

fn minute_of_week(millis: u64) -> u32 {
    let minutes = millis / 60_000;
    let day = (minutes / u64::from(DAY_MINUTES) + EPOCH_DAY) % 7;
    // Below 7 · 1440, so the cast is lossless.
    (day * u64::from(DAY_MINUTES) + minutes % u64::from(DAY_MINUTES)) as u32
}

fn day(text: &str) -> Option<u32> {
    DAYS.iter().position(|day| day.eq_ignore_ascii_case(text)).and_then(|at| u32::try_from(at).ok())
}

fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<u32>().ok())?
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= DAY_MINUTES).then_some(total)
}

impl PolicyValue for TradingHours {
    fn stricter(&self, other: &Self) -> Self {
        let (Some(one), Some(two)) = (&self.0, &other.0) else {
            return Self(self.0.as_ref().or(other.0.as_ref()).cloned());
        };
        let overlap = |one: &(u32, u32), two: &(u32, u32)| (one.0.max(two.0), one.1.min(two.1));
        let both = one.iter().flat_map(|one| two.iter().map(move |two| overlap(one, two)));
        Self(Some(both.filter(|(from, to)| from < to).collect()))
    }

    fn shown(&self) -> String {
        let Some(stretches) = &self.0 else { return "\"always\"".to_owned() };
        let mut text = String::from("[");
        let mut first = true;
        for (from, to) in stretches {
            // An interval over several days is written day by day.
            let mut at = *from;
            while at < *to {
                let day = at / DAY_MINUTES;
                let end = (*to).min((day + 1) * DAY_MINUTES);
                let name = DAYS.get(day as usize).copied().unwrap_or("Sun");
                let clock = |minute: u32| {
                    let minute = minute - day * DAY_MINUTES;
                    format!("{:02}:{:02}", minute / 60, minute % 60)
                };
                let comma = if first { "" } else { ", " };
                // Writing to a `String` cannot fail.
                let _ = write!(text, "{comma}\"{name} {}-{}\"", clock(at), clock(end));
                first = false;
                at = end;
            }
        }
        text.push(']');
        text
    }
}

impl<'de> Deserialize<'de> for TradingHours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "\"always\" or a list such as [\"Mon-Fri 08:00-18:00\"]")]
        enum HoursForm {
            Word(String),
            List(Vec<String>),
        }
        match HoursForm::deserialize(deserializer)? {
            HoursForm::Word(word) if word == "always" => Ok(Self::ALWAYS),
            HoursForm::Word(_) => Err(D::Error::custom("write \"always\" or a list such as [\"Mon-Fri 08:00-18:00\"]")),
            HoursForm::List(list) => Self::parse(&list).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(list: &[&str]) -> TradingHours {
        TradingHours::parse(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    /// 22 November 2026, a Sunday, 00:00 UTC.
    const SUNDAY: u64 = 1_795_305_600_000;
    const HOUR: u64 = 3_600_000;

    #[test]
    fn the_week_is_read_in_utc() {
        let work = hours(&["Mon-Fri 08:00-18:00"]);
        let monday = SUNDAY + 24 * HOUR;
        for (at, inside) in [
            (SUNDAY + 9 * HOUR, false),
            (monday + 8 * HOUR - 1, false),
            (monday + 8 * HOUR, true),
            (monday + 18 * HOUR - 1, true),
            (monday + 18 * HOUR, false),
            (monday + (4 * 24 + 17) * HOUR, true),
            (monday + (5 * 24 + 12) * HOUR, false),
        ] {
            assert_eq!(work.contains(at), inside, "{at}");
        }
        assert_eq!(work.opens_in(SUNDAY + 23 * HOUR + 30_000), Some(9 * 3_600 - 30));
        assert!(TradingHours::ALWAYS.contains(SUNDAY));
        assert_eq!(hours(&[]).opens_in(SUNDAY), None);
        assert!(!hours(&[]).contains(SUNDAY));
    }

    #[test]
    fn stretches_are_merged_cut_and_written() {
        let two = hours(&["Tue 10:00-12:00", "Mon-Tue 22:00-24:00", "Tue 00:00-11:00"]);
        assert_eq!(two.shown(), "[\"Mon 22:00-24:00\", \"Tue 00:00-12:00\", \"Tue 22:00-24:00\"]");
        let both = two.stricter(&hours(&["Tue 09:00-23:00"]));
        assert_eq!(both.shown(), "[\"Tue 09:00-12:00\", \"Tue 22:00-23:00\"]");
        for bad in
            ["Mon", "Mon 8:00-18:00", "Mon 08:00-25:00", "Fri-Mon 08:00-18:00", "Mon 18:00-08:00", "Moon 08:00-18:00"]
        {
            assert!(TradingHours::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}

#pragma once
// Dates for templates, without locale or time zone: English names, and the time as given.
#include <string>
#include <string_view>

#include "common/expected.h"

namespace tessera::jinja {

/// Date and time.
struct DateTime {
    int year = 1970, month = 1, day = 1;  ///< month, day from 1
    int hour = 0, minute = 0, second = 0;

    /// The current time in the machine's time zone.
    static DateTime now();
    /// Parses "2026-08-22T10:20:30". Errors: not a date.
    static Result<DateTime> parse(std::string_view text);

    int day_of_week() const;  ///< 0 = Sunday
    int day_of_year() const;  ///< from 1
};

/// C's strftime in the C locale; unknown conversions are copied. `%-d` omits leading zeros.
std::string format_time(std::string_view format, const DateTime& time);

}  // namespace tessera::jinja

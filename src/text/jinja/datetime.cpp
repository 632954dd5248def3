// Dates without the C library's locale or time zone state; only now() asks the system.
#include "src/text/jinja/datetime.h"

#include <array>
#include <cstdlib>
#include <ctime>

#include "common/strings.h"

namespace tessera::jinja {

namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in(int year, int month) {
    static constexpr std::array<int, 12> kDaysIn = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : kDaysIn[static_cast<size_t>(month - 1)];
}

// ISO 8601: the week with the year's first Thursday is its first.
struct IsoWeek {
    int year, week;
};

IsoWeek iso_week(const DateTime& time) {
    const int weekday = (time.day_of_week() + 6) % 7;  // 0 = Monday
    const int week = (time.day_of_year() - 1 - weekday + 10) / 7;
    if (week < 1) {
        const DateTime last{time.year - 1, 12, 31, 0, 0, 0};
        return iso_week(last);
    }
    const int days = is_leap(time.year) ? 366 : 365;
    if (week == 53 && days - time.day_of_year() < 3 - weekday) return {time.year + 1, 1};
    return {time.year, week};
}

// Appends one conversion; false for an unknown letter. `pad`: '-' omits leading zeros.
bool convert(std::string& out, char letter, char pad, const DateTime& t) {
    const auto number = [&](int value, int width, char fill = '0') {
        if (pad == '-') {
            width = 1;
        } else if (pad == '_') {
            fill = ' ';
        }
        out += fill == '0' ? strf("%0*d", width, value) : strf("%*d", width, value);
        return true;
    };
    const auto all = [&](const char* format) {
        out += format_time(format, t);
        return true;
    };
    const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
    const std::string day = kDays[static_cast<size_t>(t.day_of_week())];
    const std::string month = kMonths[static_cast<size_t>(t.month - 1)];
    const int yday = t.day_of_year(), wday = t.day_of_week();
    switch (letter) {
        case 'A':
            out += day;
            return true;
        case 'a':
            out += day.substr(0, 3);
            return true;
        case 'B':
            out += month;
            return true;
        case 'b':
        case 'h':
            out += month.substr(0, 3);
            return true;
        case 'C':
            return number(t.year / 100, 2);
        case 'c':
            return all("%a %b %e %H:%M:%S %Y");
        case 'D':
        case 'x':
            return all("%m/%d/%y");
        case 'd':
            return number(t.day, 2);
        case 'e':
            return number(t.day, 2, ' ');
        case 'F':
            return all("%Y-%m-%d");
        case 'f':
            out += "000000";
            return true;
        case 'G':
            return number(iso_week(t).year, 4);
        case 'g':
            return number(iso_week(t).year % 100, 2);
        case 'H':
            return number(t.hour, 2);
        case 'I':
            return number(hour12, 2);
        case 'j':
            return number(yday, 3);
        case 'k':
            return number(t.hour, 2, ' ');
        case 'l':
            return number(hour12, 2, ' ');
        case 'M':
            return number(t.minute, 2);
        case 'm':
            return number(t.month, 2);
        case 'n':
            out += '\n';
            return true;
        case 'P':
            out += t.hour < 12 ? "am" : "pm";
            return true;
        case 'p':
            out += t.hour < 12 ? "AM" : "PM";
            return true;
        case 'R':
            return all("%H:%M");
        case 'r':
            return all("%I:%M:%S %p");
        case 'S':
            return number(t.second, 2);
        case 'T':
        case 'X':
            return all("%H:%M:%S");
        case 't':
            out += '\t';
            return true;
        case 'U':
            return number((yday + 6 - wday) / 7, 2);
        case 'u':
            return number(wday == 0 ? 7 : wday, 1);
        case 'V':
            return number(iso_week(t).week, 2);
        case 'W':
            return number((yday + 6 - (wday + 6) % 7) / 7, 2);
        case 'w':
            return number(wday, 1);
        case 'Y':
            return number(t.year, 4);
        case 'y':
            return number(t.year % 100, 2);
        case 'Z':
        case 'z':
            return true;
        case '%':
            out += '%';
            return true;
        default:
            return false;
    }
}

}  // namespace

DateTime DateTime::now() {
    const std::time_t seconds = std::time(nullptr);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    return {parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec};
}

Result<DateTime> DateTime::parse(std::string_view text) {
    const auto bad = [&] {
        return fail(ErrorCode::InvalidArgument, "expected a time such as 2026-08-22T10:20:30, found '%s'",
                    printable(text).c_str());
    };
    static constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
    if (text.size() != kShape.size() && text.size() != 10) return bad();
    for (size_t i = 0; i < text.size(); i++)
        if (kShape[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != kShape[i]) return bad();
    const auto field = [&](size_t at, size_t n) {
        return at < text.size() ? static_cast<int>(parse_int(text.substr(at, n)).value_or(0)) : 0;
    };
    const DateTime time{field(0, 4), field(5, 2), field(8, 2), field(11, 2), field(14, 2), field(17, 2)};
    if (time.year < 1 || time.month < 1 || time.month > 12 || time.day < 1 ||
        time.day > days_in(time.year, time.month) || time.hour > 23 || time.minute > 59 || time.second > 60)
        return bad();
    return time;
}

int DateTime::day_of_year() const {
    int days = day;
    for (int m = 1; m < month; m++) days += days_in(year, m);
    return days;
}

int DateTime::day_of_week() const {
    // Days since Monday 0001-01-01 in the proleptic Gregorian calendar.
    const int before = year - 1;
    const int days = before * 365 + before / 4 - before / 100 + before / 400 + day_of_year();
    return ((days % 7) + 7) % 7;
}

std::string format_time(std::string_view format, const DateTime& time) {
    std::string out;
    for (size_t i = 0; i < format.size(); i++) {
        if (format[i] != '%' || i + 1 == format.size()) {
            out += format[i];
            continue;
        }
        size_t letter = i + 1;
        const char pad = format[letter] == '-' || format[letter] == '_' ? format[letter] : '\0';
        letter += pad != '\0';
        if (letter < format.size() && convert(out, format[letter], pad, time)) {
            i = letter;
        } else {
            out += '%';
        }
    }
    return out;
}

}  // namespace tessera::jinja

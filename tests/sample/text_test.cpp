// Samplers that look at text: lists of strings and their matcher, sequence breakers, banned strings with
// backtracking, infill, and the defaults of a model file.
#include <algorithm>
#include <random>

#include "src/sample/byte_matcher.h"
#include "src/sample/model_defaults.h"
#include "src/sample/string_ban.h"
#include "src/sample/string_list.h"
#include "tests/sample/logits.h"
#include "tests/sample/vocabulary.h"

namespace tessera::sample {
namespace {

using test::neutral;
using test::Vocabulary;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

TEST(StringList, EscapesComeBack) {
    const auto parsed = parse_string_list("a b,\\,\\\\,\\n\\t\\r,\\x41\\xfF,é");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, (Strings{"a b", ",\\", "\n\t\r", "A\xFF", "é"}));
    EXPECT_EQ(*parse_string_list(format_string_list(*parsed)), *parsed);
    EXPECT_EQ(*parse_string_list(""), Strings());
    for (const char* bad : {",", "a,", ",a", "a,,b", "\\", "\\q", "\\x1", "\\xg0", "a\\"})
        EXPECT_FALSE(parse_string_list(bad)) << bad;
    EXPECT_FALSE(parse_string_list(std::string(kMaxStringBytes + 1, 'x')));
    EXPECT_FALSE(parse_string_list(std::string(2 * kMaxStrings, ',')));
}

TEST(ParamList, TakesTextAndStrings) {
    Params params;
    EXPECT_EQ(params.list("dry_sequence_breakers"), (Strings{"\n", ":", "\"", "*"}));
    EXPECT_FALSE(params.given("dry_sequence_breakers"));
    ASSERT_TRUE(params.set("dry_sequence_breakers", Strings{"a,b", "\n"}));
    EXPECT_EQ(params.list("dry_sequence_breakers"), (Strings{"a,b", "\n"}));
    EXPECT_TRUE(params.given("dry_sequence_breakers"));
    ASSERT_TRUE(params.set("dry_sequence_breakers", ""));
    EXPECT_EQ(params.list("dry_sequence_breakers"), Strings());
    EXPECT_FALSE(params.set("dry_sequence_breakers", Strings{""}));
    EXPECT_FALSE(params.set("top_k", Strings{"1"}));
    const auto bad = params.set("banned_strings", "a\\z");
    ASSERT_FALSE(bad);
    EXPECT_NE(bad.error().message.find("banned_strings: expected one of"), std::string::npos)
        << bad.error().message;
}

TEST(ByteMatcher, EqualsASearchAtEveryByte) {
    std::mt19937 bits(1);
    const auto random_text = [&](size_t n) {
        std::string text;
        while (text.size() < n) text += static_cast<char>('a' + bits() % 3);
        return text;
    };
    for (int round = 0; round < 200; round++) {
        Strings strings;
        for (size_t i = 0; i < 1 + bits() % 6; i++) strings.push_back(random_text(1 + bits() % 5));
        ByteMatcher matcher(strings);
        const std::string text = random_text(60);
        for (size_t end = 1; end <= text.size(); end++) {
            const std::string_view seen(text.data(), end);
            size_t shortest = 0, pending = 0;
            for (const std::string& s : strings) {
                if (seen.ends_with(s)) shortest = shortest ? std::min(shortest, s.size()) : s.size();
                for (size_t n = 1; n <= s.size(); n++)
                    if (seen.ends_with(std::string_view(s).substr(0, n))) pending = std::max(pending, n);
            }
            ASSERT_EQ(matcher.push(static_cast<uint8_t>(text[end - 1])), shortest);
            ASSERT_EQ(matcher.n_pending(), pending);
        }
    }
}

/// The logits after a chain, by token.
std::vector<float> edited_text(Chain& chain, size_t n_vocab) {
    Candidates buffer;
    chain.sample(std::vector<float>(n_vocab, 1.0f), buffer);
    std::vector<float> logits(n_vocab, NAN);
    for (const Candidate& c : buffer.entries()) logits[static_cast<size_t>(c.id)] = c.logit;
    return logits;
}

TEST(Dry, RepetitionsDoNotCrossBreakers) {
    const Vocabulary v({"one", "two", "three", "x:y", ":=", "=:"});
    const int32_t one = v.first, two = one + 1, three = one + 2, colon = one + 3, begin = one + 4,
                  end = one + 5;
    Params params = neutral({{"dry_multiplier", 1}, {"dry_base", 2}});
    const auto penalty = [&](const char* breakers, const Ids& text) {
        EXPECT_TRUE(params.set("dry_sequence_breakers", breakers));
        auto chain = Chain::create(params, {.n_vocab = v.n_vocab, .tokenizer = v.tokenizer.get()});
        EXPECT_TRUE(chain) << chain.error().message;
        for (const int32_t id : text) chain->accept(id);
        return 1.0f - edited_text(*chain, static_cast<size_t>(v.n_vocab))[static_cast<size_t>(three)];
    };
    EXPECT_EQ(penalty("", {one, two, three, one, two}), 1.0f);
    EXPECT_EQ(penalty("", {two, one, two, three, two, one, two}), 2.0f);
    EXPECT_EQ(penalty("", {one, two, three, two}), 0.0f);
    // The same with a breaker inside: behind it there are two tokens, or one, or none.
    EXPECT_EQ(penalty("", {one, colon, one, two, three, one, colon, one, two}), 4.0f);
    EXPECT_EQ(penalty(":", {one, colon, one, two, three, one, colon, one, two}), 1.0f);
    EXPECT_EQ(penalty(":", {one, one, colon, two, three, one, one, colon, two}), 0.0f);
    EXPECT_EQ(penalty(":", {one, two, colon, three, one, two, colon}), 0.0f);
    // A breaker that spans two tokens breaks at its end.
    EXPECT_EQ(penalty("==", {begin, end, one, two, three, begin, end, one, two}), 1.0f);
    EXPECT_EQ(penalty("=:=", {begin, end, one, two, three, begin, end, one, two}), 4.0f);

    ASSERT_TRUE(params.set("dry_sequence_breakers", ":"));
    const auto none = Chain::create(params, {.n_vocab = 100});
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message.find("dry_sequence_breakers"), std::string::npos);
}

TEST(BannedStrings, TokensThatContainOneAreBanned) {
    const Vocabulary v({"cat", "scatter", "ca", "t", "dog"});
    Params params = neutral({});
    ASSERT_TRUE(params.set("banned_strings", "cat,o"));
    ASSERT_TRUE(params.set("samplers", "temperature"));  // it takes part all the same
    auto chain = Chain::create(params, {.n_vocab = v.n_vocab, .tokenizer = v.tokenizer.get()});
    ASSERT_TRUE(chain) << chain.error().message;
    const std::vector<float> logits = edited_text(*chain, static_cast<size_t>(v.n_vocab));
    for (int32_t id = 0; id < v.n_vocab; id++) {
        const bool banned =
            id == v.first || id == v.first + 1 || id == v.first + 4 || id == Vocabulary::byte('o');
        EXPECT_EQ(std::isinf(logits[static_cast<size_t>(id)]), banned) << id;
    }
}

/// Drives a text through StringBan and records the shown and the retracted tokens.
struct Driver {
    explicit Driver(const Vocabulary& v, const Strings& strings) : ban(strings, *v.tokenizer) {}

    void push(int32_t id) {
        const auto pushed = ban.push(id);
        EXPECT_TRUE(pushed) << pushed.error().message;
        text.push_back(id);
        shown.insert(shown.end(), ban.released().begin(), ban.released().end());
        text.resize(text.size() - ban.n_rewind());
        EXPECT_EQ(shown.size() + ban.held().size(), text.size());
    }
    Ids banned() const { return {ban.banned().begin(), ban.banned().end()}; }

    StringBan ban;
    Ids text, shown;
};

TEST(StringBan, HoldsBackAndGoesBack) {
    const Vocabulary v({"the", " cat", " ca", "t", "ts", "r", " "});
    const int32_t the = v.first, ca = the + 2, t = the + 3, ts = the + 4, r = the + 5;
    Driver d(v, {"cats", "the car"});
    d.push(t);
    EXPECT_EQ(d.shown, (Ids{}));  // "t" may begin "the car"
    d.push(the);
    EXPECT_EQ(d.shown, (Ids{t}));
    d.push(ca);
    EXPECT_EQ(d.shown, (Ids{t}));
    d.push(ts);  // "cats" began within " ca"
    EXPECT_EQ(d.ban.n_rewind(), 2u);
    EXPECT_EQ(d.text, (Ids{t, the}));
    EXPECT_EQ(d.banned(), (Ids{ca}));
    const int32_t space = the + 6;
    d.push(space);
    EXPECT_EQ(d.banned(), (Ids{}));  // another place
    d.push(Vocabulary::byte('c'));
    d.push(Vocabulary::byte('a'));
    EXPECT_EQ(d.shown, (Ids{t}));
    d.push(r);  // "the car": back to where it began
    EXPECT_EQ(d.ban.n_rewind(), 5u);
    EXPECT_EQ(d.text, (Ids{t}));
    EXPECT_EQ(d.banned(), (Ids{the}));
    EXPECT_EQ(Ids(d.ban.held().begin(), d.ban.held().end()), (Ids{}));
    d.push(r);
    EXPECT_EQ(d.shown, (Ids{t, r}));
    d.push(Vocabulary::end);  // control tokens have no bytes
    EXPECT_EQ(d.shown, (Ids{t, r, Vocabulary::end}));
}

TEST(StringBan, NoBannedStringIsEverShown) {
    const Vocabulary v({"a", "b", "ab", "ba", "aa", "bb", "c"});
    std::mt19937 bits(3);
    for (int round = 0; round < 100; round++) {
        Strings strings;
        for (size_t i = 0; i < 1 + bits() % 3; i++) {
            std::string s;
            for (size_t n = 2 + bits() % 4; s.size() < n;) s += static_cast<char>('a' + bits() % 2);
            strings.push_back(s);
        }
        Driver d(v, strings);
        for (int step = 0; step < 300; step++) {
            int32_t id = v.first + static_cast<int32_t>(bits() % 7);
            while (std::ranges::count(d.ban.banned(), id)) id = v.first + static_cast<int32_t>(bits() % 7);
            d.push(id);
            std::string text;
            for (const int32_t shown : d.text) text += v.tokenizer->token_bytes(shown);
            for (const std::string& s : strings)
                ASSERT_EQ(text.find(s), std::string::npos)
                    << s << " in " << text << " of " << format_string_list(strings);
            ASSERT_TRUE(std::equal(d.shown.begin(), d.shown.end(), d.text.begin()));
        }
    }
}

TEST(StringBan, GivesUpAfterManyAttempts) {
    const Vocabulary v({"ab"});
    StringBan ban(Strings{"ab"}, *v.tokenizer);
    for (size_t i = 0; i < StringBan::kMaxRewinds; i++) ASSERT_TRUE(ban.push(v.first));
    const auto stuck = ban.push(v.first);
    ASSERT_FALSE(stuck);
    EXPECT_NE(stuck.error().message.find("1000 attempts"), std::string::npos);
}

TEST(Infill, EndsJoinsAndFilters) {
    const Vocabulary v({"re", "return", "x", "y"});
    const auto n = static_cast<size_t>(v.n_vocab);
    const auto at = [](int32_t id) { return static_cast<size_t>(id); };
    Params params = neutral({{"infill", 1}});
    auto chain = Chain::create(params, {.n_vocab = v.n_vocab, .tokenizer = v.tokenizer.get()});
    ASSERT_TRUE(chain) << chain.error().message;
    const auto left = [&](const std::vector<std::pair<int32_t, double>>& p) {
        std::vector<float> logits(n, -INFINITY);
        for (const auto& [id, share] : p) logits[at(id)] = static_cast<float>(std::log(share));
        Candidates buffer;
        chain->sample(logits, buffer);
        Ids ids;
        buffer.weigh();
        for (const Candidate& c : buffer.entries())
            if (c.weight > 0) ids.push_back(c.id);
        std::sort(ids.begin(), ids.end());
        return ids;
    };
    const int32_t re = v.first, whole = re + 1, x = re + 2, y = re + 3, end = Vocabulary::end;
    EXPECT_EQ(left({{x, 0.9}, {end, 0.1}}), (Ids{end}));  // ending is at least thought of
    // Each of the two alone would be dropped; together they are kept as the likelier of them.
    EXPECT_EQ(left({{re, 0.17}, {whole, 0.2}, {x, 0.63}}), (Ids{whole, x}));
    EXPECT_EQ(left({{x, 0.75}, {y, 0.25}}), (Ids{x}));  // 0.25 is less than 1 / 3
    EXPECT_EQ(left({{x, 0.6}, {y, 0.4}}), (Ids{x, y}));
    std::vector<std::pair<int32_t, double>> many;
    for (int32_t i = 0; i < 20; i++) many.emplace_back(Vocabulary::byte(static_cast<char>('a' + i)), 0.05);
    EXPECT_EQ(left(many), (Ids{end}));  // nothing is likely: the text ends
    EXPECT_FALSE(Chain::create(params, {.n_vocab = v.n_vocab}));
}

TEST(ModelDefaults, YieldToExplicitParameters) {
    auto file = tessera::test::TokenList::with_bytes().gguf();
    file.i32("general.sampling.top_k", 7).i32("general.sampling.mirostat", 9);
    file.i32("general.sampling.penalty_last_n", 12).i32("general.sampling.temp", 1);
    file.text("general.sampling.min_p", "much").text("general.sampling.sequence", "top_k;temperature");
    const auto parsed = file.parse();
    ASSERT_TRUE(parsed) << parsed.error().message;
    Params params;
    ASSERT_TRUE(params.set("temperature", 0.5));
    EXPECT_EQ(apply_model_defaults(*parsed, params), (Strings{"repeat_last_n", "top_k", "samplers"}));
    EXPECT_EQ(params.number("top_k"), 7);
    EXPECT_EQ(params.number("repeat_last_n"), 12);
    EXPECT_EQ(params.number("temperature"), 0.5);
    EXPECT_EQ(params.number("mirostat"), 0);  // 9 is none
    EXPECT_EQ(params.number("min_p"), 0.05);
    EXPECT_EQ(params.text("samplers"), "top_k;temperature");
    EXPECT_FALSE(params.given("top_k"));
    // An explicit order overrides the order of the file.
    for (const char* param : {"samplers", "sampling_seq"}) {
        Params other = params;
        ASSERT_TRUE(other.set(param, "kpt"));
        const auto chain = Chain::create(other, {.n_vocab = 1000});
        ASSERT_TRUE(chain) << chain.error().message;
        EXPECT_EQ(chain->names().size(), 4u);  // top_k, top_p, temperature, draw
    }
    ASSERT_TRUE(params.set("sampling_seq", "kpt"));
    ASSERT_TRUE(params.set("samplers", "top_k"));
    EXPECT_FALSE(Chain::create(params, {.n_vocab = 1000}));
}

}  // namespace
}  // namespace tessera::sample

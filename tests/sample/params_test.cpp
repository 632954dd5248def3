// The parameter table: every row's range, the text forms, the names, and the page generated from it.
#include "src/sample/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "src/sample/chain.h"

namespace tessera::sample {
namespace {

void expect_error(const Result<void>& result, std::initializer_list<std::string> parts) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::InvalidArgument);
    for (const std::string& part : parts) {
        EXPECT_NE(result.error().message.find(part), std::string::npos)
            << part << " in: " << result.error().message;
    }
}

TEST(Params, DefaultsAreTheDocumentedOnes) {
    const Params params;
    EXPECT_EQ(params.number("temperature"), 0.8);
    EXPECT_EQ(params.number("top_k"), 40);
    EXPECT_EQ(params.number("top_p"), 0.95);
    EXPECT_EQ(params.number("min_p"), 0.05);
    EXPECT_EQ(params.number("repeat_penalty"), 1);
    EXPECT_EQ(params.number("presence_penalty"), 0);
    EXPECT_EQ(params.number("frequency_penalty"), 0);
    EXPECT_EQ(params.number("repeat_last_n"), 64);
    EXPECT_EQ(params.number("seed"), -1);
    EXPECT_EQ(params.text("logit_bias"), "");
    EXPECT_EQ(params.text("samplers"), "");
}

TEST(Params, EveryNumberKeepsToItsRange) {
    for (const ParamInfo& row : all_params()) {
        if (!row.is_number()) continue;
        const std::string name(row.name);
        SCOPED_TRACE(name);
        Params params;
        EXPECT_LE(row.min, row.default_value);
        EXPECT_GE(row.max, row.default_value);
        for (double good : {row.min, row.max, row.default_value}) {
            EXPECT_TRUE(params.set(name, good));
            EXPECT_EQ(params.number(name), good);
            EXPECT_TRUE(params.set(name, strf("%.17g", good)));
            EXPECT_EQ(params.number(name), good);
        }
        const double infinity = std::numeric_limits<double>::infinity();
        for (double bad : {row.min - 1, row.max + 2, infinity, -infinity, static_cast<double>(NAN)}) {
            expect_error(params.set(name, bad),
                         {name, strf("%.16g", row.min), strf("%.16g", row.max), "found"});
            expect_error(params.set(name, strf("%.17g", bad)), {name, "found '"});
        }
        for (const char* bad : {"", " ", "x", "1x", "1 ", "--1", "0x1", "nan", "1e999", "1,5"}) {
            expect_error(params.set(name, bad), {name, "found '" + std::string(bad) + "'"});
        }
        EXPECT_EQ(params.number(name), row.default_value);  // the last good one
        if (row.kind == ParamKind::Int) expect_error(params.set(name, row.min + 0.5), {name, "whole number"});
    }
}

TEST(Params, NamesAndFlagsAreUniqueAndBothFind) {
    std::set<std::string> seen;
    for (const ParamInfo& row : all_params()) {
        EXPECT_TRUE(seen.insert(std::string(row.name)).second) << row.name;
        EXPECT_TRUE(seen.insert(flag_of(row)).second) << row.name;
        EXPECT_EQ(find_param(row.name), &row);
        EXPECT_EQ(find_param(flag_of(row)), &row);
        EXPECT_FALSE(row.help.empty());
    }
    for (const char* flag :
         {"--temp", "--top-k", "--top-p", "--min-p", "--seed", "--repeat-penalty", "--presence-penalty",
          "--frequency-penalty", "--repeat-last-n", "--logit-bias"}) {
        EXPECT_TRUE(find_param(flag)) << flag;
    }
}

TEST(Params, UnknownNamesGetAHint) {
    Params params;
    expect_error(params.set("topp", 1.0), {"'topp'", "did you mean 'top_p'"});
    expect_error(params.set("nothing_like_it", "1"), {"'nothing_like_it'"});
    expect_error(params.set("", "1"), {"''"});
    expect_error(params.set("logit_bias", 5.0), {"logit_bias", "expected text", "found the number 5"});
}

TEST(Params, LogitBiasList) {
    Params params;
    for (const char* good : {"", " ", "0+1", "15043+1.5", "15043-1.5,2+0", "7-inf", " 1+1 , 2-2 ", "3-1e-5",
                             "3+.5", "2147483647-1000000"}) {
        EXPECT_TRUE(params.set("logit_bias", good)) << good;
        EXPECT_EQ(params.text("logit_bias"), good);
    }
    for (const char* bad : {"5",       "+5",           "5+",   "5++1", "5+inf", "5-nan",      "5+nan",
                            "-1+2",    "a+1",          "5+1x", "5+ 1", "5 +1",  "5+1e7",      "5-1e7",
                            "5+1e999", "2147483648+1", "5+1,", ",5+1", "5=1",   "5-infinity", "5+0x1"}) {
        expect_error(params.set("logit_bias", bad), {"logit_bias", "ID(+|-)VALUE", "found '"});
    }
    expect_error(params.set("logit_bias", "5+1,6+1,5-inf"), {"logit_bias", "token 5", "twice"});
    EXPECT_EQ(params.text("logit_bias"), "2147483647-1000000");
}

TEST(Params, LogitBiasIdsMustBeInTheVocabulary) {
    Params params;
    ASSERT_TRUE(params.set("logit_bias", "99-1,100+1"));
    EXPECT_TRUE(Chain::create(params, {.n_vocab = 101}));
    const auto chain = Chain::create(params, {.n_vocab = 100});
    ASSERT_FALSE(chain);
    EXPECT_EQ(chain.error().message, "logit_bias: expected token ids from 0 to 99, found 100");
}

TEST(Params, VocabularySizeIsChecked) {
    for (int32_t bad : {0, -1, (1 << 24) + 1}) EXPECT_FALSE(Chain::create(Params(), {.n_vocab = bad})) << bad;
    EXPECT_TRUE(Chain::create(Params(), {.n_vocab = 1}));
    EXPECT_TRUE(Chain::create(Params(), {.n_vocab = 1 << 24}));
}

TEST(Params, SamplersNameTheOrder) {
    const auto names = [](const char* text) {
        Params params;
        EXPECT_TRUE(params.set("samplers", text)) << text;
        const auto chain = Chain::create(params, {.n_vocab = 1000});
        std::string joined;
        for (std::string_view name : chain->names()) joined += std::string(name) + " ";
        return joined;
    };
    EXPECT_EQ(names(""), "top_k top_p min_p temperature draw ");  // the rest is off by default
    EXPECT_EQ(names("temperature;top_k"), "temperature top_k draw ");
    EXPECT_EQ(names("min_p, top_p ,draw"), "min_p top_p draw ");
    EXPECT_EQ(names("draw"), "draw ");

    Params params;
    expect_error(params.set("samplers", "top_k;min-p"),
                 {"samplers", "penalties", "found 'min-p'", "did you mean 'min_p'?"});
    expect_error(params.set("samplers", "top_k;nothing_like_it"), {"samplers", "found 'nothing_like_it'"});
    expect_error(params.set("samplers", "top_k;top_p;top_k"), {"samplers", "'top_k' is named twice"});
    expect_error(params.set("samplers", "draw;top_p"), {"samplers", "'draw' ends the chain"});
    expect_error(params.set("samplers", "top_k;"), {"samplers", "found ''"});
}

TEST(Params, DefaultOrder) {
    std::string joined;
    for (const SamplerInfo& sampler : all_samplers()) joined += std::string(sampler.name) + " ";
    EXPECT_EQ(
        joined,
        "logit_bias banned_strings penalties dry no_repeat_ngram top_n_sigma top_k typ_p top_p min_p xtc "
        "infill temperature adaptive_p mirostat draw ");
}

TEST(Params, DocumentHoldsTheTable) {
    std::ifstream in(TSR_SOURCE_DIR "/docs/reference/sampling.md", std::ios::binary);
    ASSERT_TRUE(in) << "docs/reference/sampling.md is missing";
    const std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    EXPECT_NE(page.find(params_markdown()), std::string::npos)
        << "docs/reference/sampling.md is out of date; its table should be:\n"
        << params_markdown();
    EXPECT_NE(page.find(order_markdown()), std::string::npos)
        << "docs/reference/sampling.md is out of date; its order should be:\n"
        << order_markdown();
}

}  // namespace
}  // namespace tessera::sample

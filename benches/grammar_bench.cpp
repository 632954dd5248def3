// The cost of a grammar per decoding step: mask and accept on a vocabulary of 128k tokens, and the first mask
// of large schemas. Usage: grammar_bench VOCABULARY.gguf
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/mapped_file.h"
#include "ggml-like/gguf/file.h"
#include "src/grammar/matcher.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

struct Workload {
    const char* name;
    Result<std::shared_ptr<const grammar::Grammar>> grammar;
    double compile_us;
};

template <class Compile>
Workload make(const char* name, const Compile& compile) {
    const auto from = Clock::now();
    auto grammar = compile();
    return {name, std::move(grammar), microseconds(from)};
}

std::string large_schema(int n_keys, bool required, bool closed) {
    std::string properties, names;
    for (int i = 0; i < n_keys; i++) {
        const char* kinds[] = {R"({"type":"string"})", R"({"type":"integer"})",
                               R"({"type":"string","maxLength":40})",
                               R"({"type":"array","items":{"type":"number"}})"};
        properties += strf("%s\"property_%04d\":%s", i ? "," : "", i, kinds[i % 4]);
        names += strf("%s\"property_%04d\"", i ? "," : "", i);
    }
    return "{\"type\":\"object\",\"properties\":{" + properties + "}" +
           (required ? ",\"required\":[" + names + "]" : "") +
           (closed ? ",\"additionalProperties\":false}" : "}");
}

/// Random allowed tokens, for steps that look like real output: long tokens are likelier, and the end is not
/// taken.
void run(const Workload& work, const std::shared_ptr<const grammar::TokenTrie>& trie) {
    if (!work.grammar) {
        std::printf("%-28s %s\n", work.name, work.grammar.error().message.c_str());
        return;
    }
    auto from = Clock::now();
    auto cache = grammar::MaskCache::create(*work.grammar, trie);
    if (!cache) return;
    grammar::Matcher matcher(*cache);
    std::vector<uint64_t> words(trie->mask_words());
    matcher.mask(words);
    const double first_us = microseconds(from);
    for (const char* pass : {"cold", "warm"}) {
        std::mt19937 random(7);
        std::vector<double> mask_us, accept_us;
        matcher.reset();
        for (int step = 0; step < 2000; step++) {
            from = Clock::now();
            matcher.mask(words);
            mask_us.push_back(microseconds(from));
            std::vector<int32_t> allowed;
            std::vector<double> weights;
            for (int32_t id = 0; id < trie->n_tokens(); id++) {
                if (!(words[static_cast<size_t>(id) / 64] >> (id % 64) & 1)) continue;
                if (trie->kind(id) == grammar::TokenText::Kind::End) continue;
                allowed.push_back(id);
                const auto bytes = trie->bytes(id);
                weights.push_back(bytes.find('"') != bytes.npos || bytes.find('}') != bytes.npos ? 60.0
                                                                                                 : 1.0);
            }
            if (allowed.empty()) {
                matcher.reset();
                continue;
            }
            const int32_t token =
                allowed[std::discrete_distribution<size_t>(weights.begin(), weights.end())(random)];
            from = Clock::now();
            if (!matcher.accept(token)) std::printf("refused\n");
            accept_us.push_back(microseconds(from));
        }
        const auto mean = [](const std::vector<double>& v) {
            return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
        };
        std::sort(mask_us.begin(), mask_us.end());
        std::printf(
            "%-28s %-5s compile %8.0f us  first mask %8.0f us  mask mean %7.1f  p50 %7.1f  p99 %8.1f  max "
            "%8.1f us  accept mean %5.1f us  cache %5.1f MiB\n",
            work.name, pass, work.compile_us, first_us, mean(mask_us), mask_us[mask_us.size() / 2],
            mask_us[mask_us.size() * 99 / 100], mask_us.back(), mean(accept_us),
            static_cast<double>((*cache)->memory()) / 1048576.0);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: grammar_bench VOCABULARY.gguf\n");
        return 2;
    }
    const auto file = gguf::File::open(argv[1]);
    const auto tokenizer = file ? text::Tokenizer::load(*file) : tl::unexpected<Error>(file.error());
    const auto trie =
        tokenizer ? grammar::TokenTrie::create(**tokenizer) : tl::unexpected<Error>(tokenizer.error());
    if (!trie) {
        std::fprintf(stderr, "%s\n", trie.error().message.c_str());
        return 1;
    }
    using grammar::Grammar;
    std::printf("%d tokens, %zu nodes\n", (*trie)->n_tokens(), (*trie)->nodes().size());
    const Workload work[] = {
        make("any JSON object", [] { return Grammar::json_object(); }),
        make("1000 required keys, closed",
             [] { return Grammar::from_json_schema(large_schema(1000, true, true)); }),
        make("1000 optional keys, closed",
             [] { return Grammar::from_json_schema(large_schema(1000, false, true)); }),
        make("1000 optional keys, open",
             [] { return Grammar::from_json_schema(large_schema(1000, false, false)); }),
        make("string of 100000 at most",
             [] { return Grammar::from_json_schema(R"({"type":"string","maxLength":100000})"); }),
        make("pattern and date-time",
             [] {
                 return Grammar::from_json_schema(
                     R"({"type":"object","properties":{"at":{"type":"string","format":"date-time"},
                    "id":{"type":"string","pattern":"^[A-Z]{2}-[0-9]+ .*$"},"n":{"type":"number","minimum":-2.5,"maximum":3.75}},
                    "required":["at","id","n"],"additionalProperties":false})");
             }),
        make("JSON in GBNF",
             [] {
                 return Grammar::from_gbnf(
                     "root ::= ws value ws\nvalue ::= object | array | string | number | \"true\" | "
                     "\"false\" | \"null\"\n"
                     "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\"\nmember ::= string ws \":\" ws "
                     "value ws\n"
                     "array ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n"
                     "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
                     "[0-9a-fA-F]{4}))* \"\\\"\"\n"
                     "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\nws ::= "
                     "[ \\t\\n\\r]*\n");
             }),
        make("any text (regex)", [] { return Grammar::from_regex("(?:.|\\n)*"); }),
        make("words (regex)", [] { return Grammar::from_regex("(?:[A-Za-z]+ )*[A-Za-z]+\\."); }),
    };
    for (const Workload& one : work) run(one, *trie);
    return 0;
}

// Random outputs: at each step the logits are random, so that each allowed token is equally likely. Prints a
// JSON line {"case": index, "text": output} for each. Beyond some length, tokens that close something are
// preferred, so that every output ends. Usage: random_outputs SCHEMAS.json RUNS SEED [VOCABULARY.gguf]
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "ggml-like/gguf/file.h"
#include "src/grammar/matcher.h"
#include "tests/support/data.h"

namespace {

using namespace tessera;
using Words = std::vector<uint64_t>;

size_t count(const Words& words) {
    size_t n = 0;
    for (const uint64_t word : words) n += static_cast<size_t>(std::popcount(word));
    return n;
}

int32_t nth(const Words& words, size_t n) {
    for (size_t i = 0; i < words.size(); i++) {
        const auto here = static_cast<size_t>(std::popcount(words[i]));
        if (n >= here) {
            n -= here;
            continue;
        }
        uint64_t word = words[i];
        while (n-- > 0) word &= word - 1;
        return static_cast<int32_t>(i * 64) + std::countr_zero(word);
    }
    return -1;
}

Result<std::shared_ptr<const grammar::TokenTrie>> read_trie(const char* path) {
    if (path) {
        TSR_TRY(const auto file, gguf::File::open(path));
        TSR_TRY(const auto tokenizer, text::Tokenizer::load(file));
        return grammar::TokenTrie::create(*tokenizer);
    }
    std::vector<grammar::TokenText> tokens;
    for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte))});
    for (const char* text :
         {"{\"", "\":", "\": ", "\",\"", "\"}", "}}", "]]", "},{", "true", "null", "10", "1.5", " the"})
        tokens.push_back({text});
    tokens.push_back({"</s>", grammar::TokenText::Kind::End});
    return grammar::TokenTrie::create(tokens);
}

template <class Wanted>
Words tokens_of(const grammar::TokenTrie& trie, const Wanted& wanted) {
    Words words(trie.mask_words());
    for (int32_t id = 0; id < trie.n_tokens(); id++)
        if (trie.kind(id) == grammar::TokenText::Kind::Text && wanted(trie.bytes(id)))
            words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    return words;
}

/// The names of all required properties.
void collect_required(const nlohmann::ordered_json& schema, std::vector<std::string>& out) {
    if (schema.is_object() && schema.contains("required") && schema["required"].is_array())
        for (const auto& name : schema["required"])
            if (name.is_string()) out.push_back(name.dump() + ":");
    if (schema.is_structured())
        for (const auto& inner : schema) collect_required(inner, out);
}

/// Tokens that bring an output to its end: closing ones, otherwise separators.
std::array<Words, 3> closing_tokens(const grammar::TokenTrie& trie) {
    const auto one_of = [&](std::string_view chars) {
        return tokens_of(
            trie, [=](std::string_view text) { return text.size() == 1 && chars.find(text) != chars.npos; });
    };
    return {one_of("\"}]"), one_of(",:"), one_of(".>-!")};
}

/// Begins a required member where one may begin, because chance alone would hardly ever spell its name.
bool write_required(grammar::Matcher& matcher, const std::vector<std::string>& names, std::string& out) {
    for (const std::string& name : names) {
        for (const std::string& text : {name, "," + name}) {
            if (!matcher.accept_bytes(text)) continue;
            out += text;
            return true;
        }
    }
    return false;
}

/// Empty if the output does not end.
bool write_output(grammar::Matcher& matcher, const std::array<Words, 3>& closing,
                  const std::vector<std::string>& names, std::mt19937_64& random, std::string& out) {
    const grammar::TokenTrie& trie = matcher.cache().trie();
    Words allowed(trie.mask_words()), preferred(trie.mask_words());
    matcher.reset();
    out.clear();
    for (size_t step = 0; step < 4000; step++) {
        if (matcher.is_accepting() && (matcher.is_finished() || random() % 4 == 0)) return true;
        if (step > 100 && random() % 8 == 0 && write_required(matcher, names, out)) continue;
        matcher.mask(allowed);
        for (const int32_t id : trie.ends())
            allowed[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64));
        bool close = random() % 100 < std::min<size_t>(90, step * 2);
        for (size_t tier = step < 60 ? 0 : random() % closing.size(); close && tier < closing.size();
             tier++) {
            for (size_t i = 0; i < allowed.size(); i++) preferred[i] = allowed[i] & closing[tier][i];
            if (count(preferred) > 0) break;
            close = tier + 1 < closing.size();
        }
        const Words& from = close ? preferred : allowed;
        const size_t n = count(from);
        if (n == 0) return false;
        const int32_t token = nth(from, random() % n);
        if (!matcher.accept(token)) return false;
        out += trie.bytes(token);
    }
    return false;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const auto cases = nlohmann::ordered_json::parse(test::read_file(argv[1]));
    const auto trie = read_trie(argc > 4 ? argv[4] : nullptr);
    if (!trie) {
        std::fprintf(stderr, "%s\n", trie.error().message.c_str());
        return 1;
    }
    const auto closing = closing_tokens(**trie);
    std::mt19937_64 random(std::strtoull(argv[3], nullptr, 10));
    for (size_t i = 0; i < cases.size(); i++) {
        const auto grammar = grammar::Grammar::from_json_schema(cases[i]["schema"].dump());
        if (!grammar) {
            std::fprintf(stderr, "case %zu: %s\n", i, grammar.error().message.c_str());
            continue;
        }
        const auto cache = grammar::MaskCache::create(*grammar, *trie);
        if (!cache) return 1;
        grammar::Matcher matcher(*cache);
        std::vector<std::string> names;
        collect_required(cases[i]["schema"], names);
        std::string text;
        for (long run = 0; run < std::atol(argv[2]); run++) {
            if (!write_output(matcher, closing, names, random, text)) {
                std::fprintf(stderr, "case %zu: an output did not end after %zu bytes: ...%s\n", i,
                             text.size(),
                             text.substr(text.size() - std::min<size_t>(text.size(), 300)).c_str());
                return 1;
            }
            const nlohmann::json line = {{"case", i}, {"text", text}};
            std::printf("%s\n", line.dump().c_str());
        }
    }
    return 0;
}

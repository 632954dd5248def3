// Tokenization on one thread: MB/s and tokens/s of each vocabulary of the reference data over English prose,
// a generated text of many scripts, and long runs of one character. "first" encodes each text once with a new
// tokenizer, the other rows repeatedly.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>

#include "src/text/tokenizer.h"

namespace {

using tessera::text::Tokenizer;

std::string shared(const std::string& relative) {
    const char* folder = std::getenv("TESSERA_SHARED");
    return (folder ? std::string(folder) : std::string(TSR_SOURCE_DIR) + "/../shared") + "/" + relative;
}

struct Language {
    const char* separator;
    std::span<const char* const> words;
};

constexpr const char* kEnglish[] = {"the",      "river", "had",     "frozen", "early",
                                    "that",     "year",  "and",     "nobody", "could",
                                    "remember", "such",  "silence", "before", "Christmas"};
constexpr const char* kRussian[] = {"река",  "замёрзла", "рано",     "в",        "том",
                                    "году",  "и",        "никто",    "не",       "помнил",
                                    "такой", "тишины",   "накануне", "праздника"};
constexpr const char* kGreek[] = {"το",  "ποτάμι", "πάγωσε", "νωρίς",   "εκείνη", "τη",   "χρονιά",
                                  "και", "κανείς", "δεν",    "θυμόταν", "τέτοια", "σιωπή"};
constexpr const char* kArabic[] = {"تجمد",  "النهر", "مبكرا", "في",  "تلك",   "السنة", "ولم",
                                   "يتذكر", "أحد",   "مثل",   "هذا", "الصمت", "قبل",   "العيد"};
constexpr const char* kHindi[] = {"उस",   "साल", "नदी", "जल्दी",   "जम",  "गई",  "और",
                                  "किसी", "को",  "ऐसी", "खामोशी", "याद", "नहीं", "थी"};
constexpr const char* kThai[] = {"แม่น้ำ", "กลายเป็น", "น้ำแข็ง", "เร็ว", "ใน",   "ปี",    "นั้น",
                                 "และ",  "ไม่มี",     "ใคร",   "จำ",  "ความ", "เงียบ", "แบบนี้"};
constexpr const char* kChinese[] = {"那一年", "河水", "很早", "就",   "结冰", "了",   "没有人", "记得",
                                    "节日",   "之前", "有过", "这样", "的",   "寂静", "，",     "。"};
constexpr const char* kJapanese[] = {"その年",   "川は",   "早く",   "凍り", "祭りの", "前に",       "こんな",
                                     "静けさが", "あった", "ことを", "誰も", "覚えて", "いなかった", "。"};
constexpr const char* kKorean[] = {"그해",     "강은",     "일찍", "얼었고", "명절",     "전에",  "그런",
                                   "고요함이", "있었다는", "것을", "아무도", "기억하지", "못했다"};
constexpr const char* kSigns[] = {"🦙", "👩‍🚀", "→",    "∑x²", "42", "3.14159", "{",
                                  "}",    "return",      "i++;", "\n",  "€5", "…"};

constexpr Language kLanguages[] = {{" ", kEnglish}, {" ", kRussian}, {" ", kGreek},  {" ", kArabic},
                                   {" ", kHindi},   {"", kThai},     {"", kChinese}, {"", kJapanese},
                                   {" ", kKorean},  {" ", kSigns}};

/// Sentences of random words, each in another script: some hundred thousand words, of which those of scripts
/// without spaces are all different.
std::string many_scripts() {
    std::mt19937 random(1);
    std::string text;
    while (text.size() < (size_t{1} << 20)) {
        const Language& language = kLanguages[random() % std::size(kLanguages)];
        for (size_t left = 5 + random() % 10; left > 0; left--)
            (text += language.words[random() % language.words.size()]) += language.separator;
        text += random() % 4 == 0 ? "\n" : ". ";
    }
    return text;
}

struct Text {
    std::string name, text;
};

std::shared_ptr<const Tokenizer> load(const std::string& path) {
    const auto file = tessera::gguf::File::open(path);
    if (!file) return nullptr;
    auto tokenizer = Tokenizer::load(*file);
    return tokenizer ? std::move(*tokenizer) : nullptr;
}

void report(benchmark::State& state, const std::string& text, size_t n_tokens) {
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
    state.counters["tokens_per_second"] = benchmark::Counter(
        static_cast<double>(n_tokens) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
    state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(n_tokens);
}

void encode_again(benchmark::State& state, const std::string& path, const std::string& text) {
    const auto tokenizer = load(path);
    if (!tokenizer) return state.SkipWithError("the vocabulary did not load");
    size_t n_tokens = 0;
    for (auto _ : state) n_tokens = tokenizer->encode(text)->size();
    report(state, text, n_tokens);
}

void encode_first(benchmark::State& state, const std::string& path, const std::string& text) {
    size_t n_tokens = 0;
    for (auto _ : state) {
        state.PauseTiming();
        const auto tokenizer = load(path);
        if (!tokenizer) return state.SkipWithError("the vocabulary did not load");
        state.ResumeTiming();
        n_tokens = tokenizer->encode(text)->size();
    }
    report(state, text, n_tokens);
}

void load_only(benchmark::State& state, const std::string& path) {
    for (auto _ : state)
        if (!load(path)) return state.SkipWithError("the vocabulary did not load");
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    const Text texts[] = {{"english", read_file(shared("data/text/wiki.test.raw"))},
                          {"many_scripts", many_scripts()},
                          {"run_of_a", std::string(size_t{4} << 20, 'a')},
                          {"run_of_spaces", std::string(size_t{4} << 20, ' ')}};
    for (const char* name : {"rebuilt/ggml-vocab-llama-bpe", "rebuilt/ggml-vocab-qwen2",
                             "rebuilt/ggml-vocab-smollm2", "ggml-vocab-gpt-2", "ggml-vocab-falcon",
                             "ggml-vocab-deepseek-llm", "ggml-vocab-llama-spm", "ggml-vocab-bert-bge"}) {
        const std::string path = shared(std::string("data/vocab/") + name + ".gguf");
        if (!std::filesystem::exists(path)) continue;
        const std::string label =
            std::filesystem::path(path).stem().string().substr(sizeof "ggml-vocab-" - 1);
        benchmark::RegisterBenchmark((label + "/load").c_str(), load_only, path)
            ->Unit(benchmark::kMillisecond);
        for (const Text& text : texts) {
            benchmark::RegisterBenchmark((label + "/" + text.name).c_str(), encode_again, path, text.text)
                ->Unit(benchmark::kMillisecond);
            if (&text - texts < 2)
                benchmark::RegisterBenchmark((label + "/" + text.name + "/first").c_str(), encode_first, path,
                                             text.text)
                    ->Unit(benchmark::kMillisecond)
                    ->Iterations(5);
        }
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

// The table of pre-tokenizers. The patterns are those of the models' own tokenizer files; \s means
// White_Space (splitter.h). Every pattern must take time linear in any text: tests/text/splitter_test.cpp
// tries long runs on each row.
#include "src/text/pretokenizers.h"

namespace tessera::text {

namespace {

using Pattern = std::string_view;

// The rows are kept whole, one expression a line, so that they can be compared with a tokenizer's own file.
// clang-format off

// Words with the space before them.
constexpr Pattern kGpt2[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"};
// The same after every digit was set apart.
constexpr Pattern kDigitsThenGpt2[] = {R"(\p{N})", kGpt2[0]};
constexpr Pattern kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", kGpt2[0], R"([0-9][0-9][0-9])"};
constexpr Pattern kDefault[] = {R"([\p{P}$+<=>^~|]+)", kGpt2[0], R"(\p{N}+)", R"([0-9][0-9][0-9])"};

// Words with one preceding character that is not a letter, number or line end; numbers in groups of three.
constexpr Pattern kCl100k[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kJais2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};
constexpr Pattern kMiniCpm5[] = {
    R"(\p{N}{1,3})",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// The same with numbers as single digits.
constexpr Pattern kQwen2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kLinesThenQwen2[] = {R"([^\n]+|\n+)", kQwen2[0]};
constexpr Pattern kUfakzeka[] = {
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
// Marks count as letters.
constexpr Pattern kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// Words also end where a capital follows small letters.
constexpr Pattern kO200k[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kYoutu[] = {
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// Han characters are separate. Classes are written as complements, since PCRE2 has no intersection of
// classes.
constexpr Pattern kKimi[] = {
    R"(\p{sc:Han}+|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr Pattern kDeepSeekCoder[] = {
    R"([\r\n])",
    R"(\s?\p{L}+)",
    R"(\s?\p{P}+)",
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)",
    R"(\p{N})"};
// Only letters with case, of an early Unicode version. Trailing white space is searched once per run.
constexpr Pattern kDeepSeekLlm[] = {
    R"([\r\n])",
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"((?<!\s)\s++$)",
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)",
    R"(\p{N}+)"};
constexpr Pattern kDeepSeek3[] = {
    R"(\p{N}{1,3})",
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// The parentheses and the bar are members of the class.
constexpr Pattern kBloom[] = {R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"};
constexpr Pattern kViking[] = {kBloom[0], R"(\p{N})"};

// clang-format on

constexpr PreTokenizer kRows[] = {
    {.name = "default", .patterns = kDefault},
    {.name = "llama-bpe", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "llama3", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "llama-v3", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "falcon3", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "falcon-h1", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "pixtral", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "midm-2.0", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "lfm2", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "jina-v5-nano", .patterns = kCl100k, .whole_words = true, .add_bos = true},
    {.name = "dbrx", .patterns = kCl100k},
    {.name = "smaug-bpe", .patterns = kCl100k},
    {.name = "glm4", .patterns = kCl100k},
    {.name = "chatglm-bpe", .patterns = kCl100k},
    {.name = "jais-2", .patterns = kJais2},
    {.name = "minicpm5", .patterns = kMiniCpm5, .whole_words = true},
    {.name = "qwen2", .patterns = kQwen2},
    {.name = "deepseek-r1-qwen", .patterns = kQwen2},
    {.name = "megrez", .patterns = kQwen2},
    {.name = "stablelm2", .patterns = kQwen2},
    {.name = "hunyuan", .patterns = kQwen2},
    {.name = "solar-open", .patterns = kQwen2},
    {.name = "grok-2", .patterns = kQwen2},
    {.name = "kormo", .patterns = kQwen2},
    {.name = "f2llmv2", .patterns = kQwen2},
    {.name = "laguna", .patterns = kLinesThenQwen2},
    {.name = "ufakzeka", .patterns = kUfakzeka},
    {.name = "seed-coder", .patterns = kSeedCoder},
    {.name = "bailingmoe", .patterns = kBailing},
    {.name = "bailingmoe2", .patterns = kBailing},
    {.name = "llada-moe", .patterns = kBailing},
    {.name = "qwen35", .patterns = kQwen35},
    {.name = "gpt-4o", .patterns = kO200k},
    {.name = "llama4", .patterns = kO200k},
    {.name = "kanana2", .patterns = kO200k},
    {.name = "minimax-m2", .patterns = kO200k},
    {.name = "granite-embed-multi-97m", .patterns = kO200k, .whole_words = true},
    {.name = "tekken", .patterns = kTekken, .whole_words = true, .add_bos = true},
    {.name = "youtu", .patterns = kYoutu, .whole_words = true},
    {.name = "kimi-k2", .patterns = kKimi, .ranks_are_ids = true},
    {.name = "gpt-2", .patterns = kGpt2},
    {.name = "phi-2", .patterns = kGpt2},
    {.name = "mpt", .patterns = kGpt2},
    {.name = "olmo", .patterns = kGpt2},
    {.name = "jais", .patterns = kGpt2},
    {.name = "trillion", .patterns = kGpt2},
    {.name = "granite-docling", .patterns = kGpt2},
    {.name = "exaone4", .patterns = kGpt2},
    {.name = "gigachat", .patterns = kGpt2},
    {.name = "mellum", .patterns = kGpt2},
    {.name = "a.x-4.0", .patterns = kGpt2},
    {.name = "modern-bert", .patterns = kGpt2},
    {.name = "jina-es", .patterns = kGpt2},
    {.name = "jina-de", .patterns = kGpt2},
    {.name = "jina-v2-es", .patterns = kGpt2},
    {.name = "jina-v2-de", .patterns = kGpt2},
    {.name = "jina-v1-en", .patterns = kGpt2, .add_sep = true},
    {.name = "jina-v2-code", .patterns = kGpt2, .add_sep = true},
    {.name = "roberta-bpe", .patterns = kGpt2, .add_sep = true},
    {.name = "starcoder", .patterns = kDigitsThenGpt2},
    {.name = "refact", .patterns = kDigitsThenGpt2},
    {.name = "command-r", .patterns = kDigitsThenGpt2},
    {.name = "smollm", .patterns = kDigitsThenGpt2},
    {.name = "codeshell", .patterns = kDigitsThenGpt2},
    {.name = "exaone", .patterns = kDigitsThenGpt2},
    {.name = "minerva-7b", .patterns = kDigitsThenGpt2},
    {.name = "mellum2", .patterns = kDigitsThenGpt2},
    {.name = "falcon", .patterns = kFalcon},
    {.name = "deepseek-llm", .patterns = kDeepSeekLlm},
    {.name = "deepseek-coder", .patterns = kDeepSeekCoder},
    {.name = "deepseek-v3", .patterns = kDeepSeek3},
    {.name = "hunyuan-dense", .patterns = kDeepSeek3},
    {.name = "joyai-llm", .patterns = kDeepSeek3},
    {.name = "bloom", .patterns = kBloom},
    {.name = "poro-chat", .patterns = kBloom},
    {.name = "gpt3-finnish", .patterns = kBloom},
    {.name = "viking", .patterns = kViking},
};

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kRows; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
    for (const PreTokenizer& row : kRows)
        if (row.name == name) return &row;
    return nullptr;
}

}  // namespace tessera::text

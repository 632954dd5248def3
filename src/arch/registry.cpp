// The list of architectures: an explicit table, since linkers drop self-registering objects of static
// libraries.
#include <algorithm>
#include <string>

#include "common/strings.h"
#include "src/arch/specs.h"

namespace tessera {

namespace {

constexpr const ArchSpec* kAll[] = {
    &arch::kLlama, &arch::kMistral3, &arch::kSmolLm3, &arch::kQwen2,      &arch::kQwen2Moe,
    &arch::kQwen3, &arch::kQwen3Moe, &arch::kGemma,   &arch::kGemma2,     &arch::kGemma3,
    &arch::kPhi3,  &arch::kOlmo2,    &arch::kGranite, &arch::kGraniteMoe, &arch::kGptOss,
};

/// Names in files that other programs run, so that the error can tell them from spelling mistakes.
constexpr std::string_view kNotYet[] = {
    "afmoe",
    "apertus",
    "arcee",
    "arctic",
    "arwkv7",
    "baichuan",
    "bailingmoe",
    "bailingmoe2",
    "bert",
    "bitnet",
    "bloom",
    "chameleon",
    "chatglm",
    "clip",
    "codeshell",
    "cogvlm",
    "cohere2",
    "command-r",
    "dbrx",
    "deci",
    "deepseek",
    "deepseek2",
    "dots1",
    "dream",
    "ernie4_5",
    "ernie4_5-moe",
    "exaone",
    "exaone4",
    "falcon",
    "falcon-h1",
    "gemma-embedding",
    "gemma3n",
    "gemma4",
    "glm-dsa",
    "glm4",
    "glm4moe",
    "gpt2",
    "gptj",
    "gptneox",
    "granitehybrid",
    "grok",
    "grovemoe",
    "hunyuan-dense",
    "hunyuan-moe",
    "internlm2",
    "jais",
    "jamba",
    "jina-bert-v2",
    "jina-bert-v3",
    "kimi-linear",
    "lfm2",
    "lfm2moe",
    "llada",
    "llada-moe",
    "llama4",
    "maincoder",
    "mamba",
    "mamba2",
    "mimo2",
    "minicpm",
    "minicpm3",
    "minimax-m2",
    "mistral4",
    "modern-bert",
    "mpt",
    "nemotron",
    "nemotron_h",
    "nemotron_h_moe",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "olmo",
    "olmoe",
    "openelm",
    "orion",
    "pangu-embedded",
    "phi2",
    "phimoe",
    "plamo",
    "plamo2",
    "plm",
    "qwen",
    "qwen2vl",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
    "refact",
    "rnd1",
    "rwkv6",
    "rwkv6qwen2",
    "rwkv7",
    "seed_oss",
    "smallthinker",
    "stablelm",
    "starcoder",
    "starcoder2",
    "step35",
    "t5",
    "t5encoder",
    "wavtokenizer-dec",
    "xverse",
};

}  // namespace

std::span<const ArchSpec* const> all_architectures() { return kAll; }

Result<const ArchSpec*> find_architecture(std::string_view name) {
    std::string known;
    for (const ArchSpec* spec : kAll) {
        if (spec->name == name) return spec;
        if (!known.empty()) known += ", ";
        known += spec->name;
    }
    const bool is_known = std::find(std::begin(kNotYet), std::end(kNotYet), name) != std::end(kNotYet);
    return fail(ErrorCode::Unsupported, "key 'general.architecture': architecture '%s' is %s (%s)",
                printable(name).c_str(), is_known ? "known, but not run yet; those we run" : "not one we run",
                known.c_str());
}

}  // namespace tessera

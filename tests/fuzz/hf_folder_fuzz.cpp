// Any bytes as one file of an otherwise sound Hugging Face folder: an error, or a plan whose rows can be
// read. Input: a byte that chooses the file, then its content.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "quants/dispatch.h"
#include "src/convert/hf_model.h"

namespace {

using namespace tessera;

constexpr const char* kFiles[] = {"config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "generation_config.json",
                                  "added_tokens.json",
                                  "tokenizer.model",
                                  "vocab.json",
                                  "merges.txt",
                                  "model.safetensors.index.json",
                                  "chat_template.json"};
constexpr const char* kConfig =
    R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 4, "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": true, "eos_token_id": [1, 2]})";
constexpr const char* kTokenizer =
    R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        "added_tokens": [{"id": 3, "content": "<|x|>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}})";

struct Folder {
    std::string path = "/dev/shm/hf_folder_fuzz_XXXXXX";
    Folder() {
        if (!mkdtemp(path.data())) std::abort();
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    void write(const char* file, std::string_view text) const {
        std::ofstream(path + "/" + file, std::ios::binary) << text;
    }
    void remove(const char* file) const { ::unlink((path + "/" + file).c_str()); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Folder folder;
    static ThreadPool pool(1);
    static const kernels::KernelTable& table = *(*kernels::choose_isa(""))->table;
    if (size == 0) return 0;
    const char* const file = kFiles[data[0] % std::size(kFiles)];
    folder.write("config.json", kConfig);
    folder.write("tokenizer.json", kTokenizer);
    // The older files count only where there is no newer one.
    if (std::string_view(file) == "vocab.json" || std::string_view(file) == "merges.txt") {
        folder.remove("tokenizer.json");
        folder.write("vocab.json", R"({"a": 0, "b": 1})");
        folder.write("merges.txt", "a b\n");
    }
    folder.write(file, {reinterpret_cast<const char*>(data + 1), size - 1});
    for (const bool plan_only : {true, false}) {
        const auto model =
            convert::HfModel::open(folder.path, pool, table, {.pre = "", .plan_only = plan_only});
        if (model && (*model)->recipes().size() != (*model)->file().tensors().size()) std::abort();
        if (!model && model.error().message.empty()) std::abort();
    }
    for (const char* name : kFiles) folder.remove(name);
    return 0;
}

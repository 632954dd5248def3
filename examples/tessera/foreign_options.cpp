// The table of other programs' options. The first row that fits the name and the command counts.
#include "examples/tessera/foreign_options.h"

#include <algorithm>
#include <array>

#include "common/expected.h"
#include "common/strings.h"

namespace tessera {

namespace {

using Value = ForeignOption::Value;

constexpr const char* kCpuOnly = "tessera computes on the CPU and knows no GPU; leave this option out";
constexpr const char* kNoDownload =
    "tessera downloads no models; fetch the GGUF file (a browser or `hf download` will do) and give its path";
constexpr const char* kTextOnly = "tessera reads and writes text only; leave this option out";
constexpr const char* kNoDraft = "tessera has no speculative decoding; leave this option out";
constexpr const char* kNoLora = "tessera applies no adapters; merge them into the model before converting it";
constexpr const char* kRope = "set the model's key instead: --override-kv ARCH.rope.NAME=float:X";
constexpr const char* kAffinity = "bind the process from outside: `taskset -c 0-3 tessera ...` or numactl";

const ForeignOption kForeign[] = {
    // The same thing by another name.
    {.names = "-c,--ctx-size,--num-ctx,--context", .value = Value::One, .same_as = "--ctx"},
    {.names = "-n,--predict,--n-predict,--max-tokens,--num-predict",
     .value = Value::One,
     .same_as = "--n-predict"},
    {.names = "-b,--batch-size,-ub,--ubatch-size", .value = Value::One, .same_as = "--batch"},
    {.names = "--temperature", .value = Value::One, .same_as = "--temp"},
    {.names = "-s", .value = Value::One, .same_as = "--seed"},
    {.names = "--typical", .value = Value::One, .same_as = "--typical-p"},
    {.names = "--top-nsigma", .value = Value::One, .same_as = "--top-n-sigma"},
    {.names = "--mirostat-lr", .value = Value::One, .same_as = "--mirostat-eta"},
    {.names = "--mirostat-ent", .value = Value::One, .same_as = "--mirostat-tau"},
    {.names = "--repetition-penalty", .value = Value::One, .same_as = "--repeat-penalty"},
    {.names = "--dynatemp-exponent", .value = Value::One, .same_as = "--dynatemp-exp"},
    {.names = "--dry-sequence-breaker", .value = Value::One, .same_as = "--dry-sequence-breakers"},
    {.names = "-l", .value = Value::One, .same_as = "--logit-bias"},
    {.names = "-r,--reverse-prompt", .value = Value::One, .same_as = "--stop"},
    {.names = "-sys,--system-prompt", .value = Value::One, .same_as = "--system"},
    {.names = "-st,--single-turn", .same_as = "--chat"},
    {.names = "-cnv,--conversation", .same_as = "--interactive"},
    {.names = "-i,-cnv,--conversation,--interactive,--chat", .needs = "--history", .implied = "*"},
    {.names = "--no-display-prompt", .same_as = "--no-echo"},
    {.names = "--grammar-file", .value = Value::One, .same_as = "--grammar", .prefix = "@"},
    {.names = "-j", .value = Value::One, .same_as = "--json-schema"},
    {.names = "-jf,--json-schema-file", .value = Value::One, .same_as = "--json-schema", .prefix = "@"},
    {.names = "--chat-template-file", .value = Value::One, .same_as = "--chat-template"},
    {.names = "-np,--n-parallel", .value = Value::One, .same_as = "--parallel"},
    {.names = "-np,--parallel", .value = Value::One, .same_as = "--slots"},
    {.names = "-a", .value = Value::One, .same_as = "--alias"},
    {.names = "-to,--timeout", .value = Value::One, .same_as = "--read-timeout"},
    {.names = "--ssl-cert-file", .value = Value::One, .same_as = "--tls-cert"},
    {.names = "--ssl-key-file", .value = Value::One, .same_as = "--tls-key"},
    {.names = "--no-webui", .same_as = "--no-page"},
    {.names = "--check-tensors", .same_as = "--check"},
    {.names = "-v", .same_as = "--verbose"},
    {.names = "--log-disable,-q", .same_as = "--quiet"},
    {.names = "-ctk,--cache-type-k,-ctv,--cache-type-v", .value = Value::One, .same_as = "--kv"},

    {.names = "--n-gen", .value = Value::One, .same_as = "--n-predict"},
    {.names = "--n-depth", .value = Value::One, .same_as = "--depth"},
    {.names = "--prompt-tokens", .value = Value::One, .same_as = "--n-prompt"},
    {.names = "--recipe", .value = Value::One, .same_as = "--npu-recipe"},
    {.names = "--act,--ranges", .value = Value::One, .same_as = "--npu-ranges"},

    // Requests for the default behaviour.
    {.names = "-fa,--flash-attn",
     .value = Value::Maybe,
     .implied = "on,auto,1",
     .answer = "attention is always computed in one pass over keys and values; leave this option out"},
    {.names = "-ngl,--gpu-layers,--n-gpu-layers", .value = Value::One, .implied = "0", .answer = kCpuOnly},
    {.names = "-dev,--device", .value = Value::One, .implied = "none,cpu", .answer = kCpuOnly},
    {.names = "--mmap,--repack,--jinja,--no-warmup,--warmup,-cb,--cont-batching,--metrics,--slots,--props,--"
              "simple-io,"
              "--no-context-shift,-co,--color,-nkvo,--no-kv-offload,--no-op-offload,--kv-unified,-kvu,--perf,"
              "--no-perf,--no-escape,--cpu-moe,-cmoe",
     .needs = "--ctx",
     .implied = "*"},
    {.names = "-C,--cpu-mask,-Cr,--cpu-range,--cpu-strict,--numa", .value = Value::One, .answer = kAffinity},

    // Features that tessera does not have.
    {.names = "-hf,-hfr,--hf-repo,-hff,--hf-file,-mu,--model-url,-dr,--docker-repo,-hft,--hf-token",
     .value = Value::One,
     .answer = kNoDownload},
    {.names =
         "-sm,--split-mode,-ts,--tensor-split,-mg,--main-gpu,-ot,--override-tensor,-ncmoe,--n-cpu-moe,--rpc",
     .value = Value::One,
     .answer = kCpuOnly},
    {.names = "--mmproj,-mm,--image,--audio,--video", .value = Value::One, .answer = kTextOnly},
    {.names = "-md,--model-draft,--draft,--draft-max,--draft-min,-hfd,--hf-repo-draft",
     .value = Value::One,
     .answer = kNoDraft},
    {.names = "--lora,--lora-scaled,--control-vector,--control-vector-scaled",
     .value = Value::One,
     .answer = kNoLora},
    {.names =
         "--rope-scaling,--rope-scale,--rope-freq-base,--rope-freq-scale,--yarn-orig-ctx,--yarn-ext-factor,"
         "--yarn-attn-factor,--yarn-beta-slow,--yarn-beta-fast",
     .value = Value::One,
     .answer = kRope},
    {.names = "--no-mmap", .answer = "model files are always mapped into memory; leave this option out"},
    {.names = "--mlock",
     .answer = "tessera does not lock memory; `tessera plan` says whether the model fits, so that nothing is "
               "swapped"},
    {.names = "--no-repack",
     .answer = "weights are always repacked; a file from `tessera pack` needs no time for it"},
    {.names = "-tb,--threads-batch",
     .value = Value::One,
     .answer = "prompts and decoding use the same threads; give -t"},
    {.names = "-sp,--special",
     .answer =
         "use `tessera run --json`, whose \"tokens\" hold every token, and `tessera detokenize --special`"},
    {.names = "-if,--interactive-first,-mli,--multiline-input,-no-cnv,--no-conversation",
     .answer = "`tessera run` completes a text, `tessera chat` talks; leave this option out"},
    {.names = "--keep,--context-shift",
     .answer = "a full context ends the answer; give a longer one with --ctx"},
    {.names = "-sysf,--system-prompt-file", .value = Value::One, .answer = "use --system \"$(cat FILE)\""},
    {.names = "--prompt-cache",
     .value = Value::One,
     .answer = "use `tessera chat` with /save and --load, or `tessera serve`, which keeps prompts"},
    {.names = "--in-prefix,--in-suffix",
     .value = Value::One,
     .answer = "use --chat, which puts the model's own template around the text"},
    {.names = "--api-key",
     .value = Value::One,
     .answer = "use --api-key-file FILE or the environment variable TESSERA_API_KEY"},
    {.names = "--embedding,--embeddings,--rerank,--reranking",
     .answer = "`tessera serve` always answers /v1/embeddings; leave this option out"},
    {.names = "--reasoning-budget",
     .value = Value::One,
     .implied = "-1",
     .answer = "use --no-think to disable thinking"},
    {.names = "--log-file", .value = Value::One, .answer = "redirect standard error: 2> FILE"},
};

bool is_listed(std::string_view name, std::string_view names) {
    const auto all = split(names, ',');
    return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

const ForeignOption* find_foreign(std::string_view name,
                                  const std::function<bool(std::string_view own)>& has_option) {
    for (const ForeignOption& row : kForeign)
        if (is_listed(name, row.names) && (!row.same_as || has_option(row.same_as)) &&
            (!row.needs || has_option(row.needs)))
            return &row;
    return nullptr;
}

std::vector<std::string_view> foreign_names() {
    std::vector<std::string_view> out;
    for (const ForeignOption& row : kForeign)
        for (const std::string_view name : split(row.names, ','))
            if (name.size() > 3) out.push_back(name);
    return out;
}

ForeignUse use_foreign(const std::string& name, const std::optional<std::string>& value,
                       std::optional<std::string_view> following,
                       const std::function<bool(std::string_view own)>& has_option) {
    ForeignUse out;
    const ForeignOption* row = find_foreign(name, has_option);
    if (!row) return out;
    std::string text = value.value_or("");
    out.takes_following = !value && following &&
                          (row->value == Value::One ||
                           (row->value == Value::Maybe && is_listed(*following, "on,off,auto,0,1")));
    if (out.takes_following) text = *following;
    if (row->value == Value::One && !value && !following) {
        out.kind = ForeignUse::Kind::Refused;
        out.text = "needs a value";
    } else if (row->same_as) {
        const bool is_k = name == "-ctk" || name == "--cache-type-k",
                   is_v = name == "-ctv" || name == "--cache-type-v";
        out.kind = is_k ? ForeignUse::Kind::KType : is_v ? ForeignUse::Kind::VType : ForeignUse::Kind::Same;
        out.own = row->same_as;
        out.text = row->prefix + text;
    } else if (row->implied &&
               (text.empty() || is_listed("*", row->implied) || is_listed(text, row->implied))) {
        out.kind = ForeignUse::Kind::Nothing;
    } else {
        out.kind = ForeignUse::Kind::Refused;
        out.text = row->answer;
    }
    return out;
}

std::string foreign_command_hint(std::string_view word) {
    struct Row {
        const char *names, *hint;
    };
    static constexpr Row kRows[] = {
        {"pull,push,download", "tessera downloads no models; fetch the GGUF file and give its path"},
        {"list,ls,rm,cp,ps,stop",
         "tessera keeps no list of models; a model is a GGUF file, given by its path"},
        {"show", "did you mean 'inspect'?"},
        {"create", "did you mean 'convert' or 'quantize'?"},
        {"embed,embedding", "`tessera serve` answers /v1/embeddings"},
        {"server", "did you mean 'serve'?"},
        {"cli,complete,completion,generate", "did you mean 'run'?"},
        {"gguf-split", "did you mean 'split' or 'merge'?"},
        {"ppl", "did you mean 'perplexity'?"},
    };
    for (const Row& row : kRows)
        if (is_listed(word, row.names)) return strf("; %s", row.hint);
    return "";
}

}  // namespace tessera

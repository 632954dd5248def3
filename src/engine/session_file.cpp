// Saved sessions: a header, the tokens, the pages of the KV cache as in memory, and a checksum over all of
// it. Pages have the same layout for every instruction set, so a file can move between machines. A
// fingerprint identifies the model.
#include <algorithm>
#include <cstring>

#include "common/bytes.h"
#include "common/hash.h"
#include "common/mapped_file.h"
#include "ggml-like/gguf/identity.h"
#include "ggml-like/gguf/output_file.h"
#include "src/engine/npu_model.h"
#include "src/engine/session.h"

namespace tessera::engine {

namespace {

constexpr char kSessionMagic[8] = {'T', 'S', 'R', 'S', 'E', 'S', 'S', '1'};

/// Header of the file. Little endian, no padding.
struct Header {
    char magic[8];
    uint64_t fingerprint;  // of the model
    uint64_t page_bytes;
    int64_t n_tok;
    int32_t k_type, v_type;
};
static_assert(sizeof(Header) == 40);

std::span<const std::byte> bytes_of(const Header& header) { return std::as_bytes(std::span(&header, 1)); }

Header header_of(uint64_t fingerprint, const kv::Layout& layout, int64_t n_tok) {
    Header header{};
    std::memcpy(header.magic, kSessionMagic, sizeof kSessionMagic);
    header.fingerprint = fingerprint;
    header.page_bytes = layout.page_bytes;
    header.n_tok = n_tok;
    header.k_type = static_cast<int32_t>(layout.layers.front().k_type);
    header.v_type = static_cast<int32_t>(layout.layers.front().v_type);
    return header;
}

size_t pages_of(int64_t n_tok) { return static_cast<size_t>((n_tok + kKvPage - 1) / kKvPage); }

/// Error that names the difference between the file and the session.
Result<void> check_header(const Header& found, const Header& expected, const std::string& path) {
    const auto differs = [&path](const char* what, const std::string& want, const std::string& is) {
        return fail(ErrorCode::InvalidArgument, "'%s': %s: expected %s, found %s", path.c_str(), what,
                    want.c_str(), is.c_str());
    };
    const auto hex = [](uint64_t value) { return strf("%016llx", static_cast<unsigned long long>(value)); };
    const auto type = [](int32_t id) {
        const auto at = std::find_if(std::begin(kKvTypes), std::end(kKvTypes),
                                     [id](Type t) { return static_cast<int32_t>(t) == id; });
        return at == std::end(kKvTypes) ? strf("type %d", id) : std::string(type_info(*at).name);
    };
    if (found.fingerprint != expected.fingerprint)
        return differs("the model's fingerprint", hex(expected.fingerprint), hex(found.fingerprint));
    if (found.k_type != expected.k_type)
        return differs("K cache type", type(expected.k_type), type(found.k_type));
    if (found.v_type != expected.v_type)
        return differs("V cache type", type(expected.v_type), type(found.v_type));
    if (found.page_bytes != expected.page_bytes)
        return differs("bytes of a page", strf("%llu", static_cast<unsigned long long>(expected.page_bytes)),
                       strf("%llu", static_cast<unsigned long long>(found.page_bytes)));
    return {};
}

}  // namespace

/// Fingerprint of the model, equal for a GGUF file and its packed container: hyperparameters; names, types
/// and shapes of the tensors; all vectors; the dequantized embeddings of some tokens.
uint64_t Session::fingerprint() const {
    if (fingerprint_) return *fingerprint_;
    Hash64 hash;
    gguf::add_identity(model_->file(), model_->arch().name, gguf::IdentityBytes::Vectors, hash);
    // Some models have other RoPE frequencies in a long context.
    const RopeSpec rope = model_->rope(n_ctx_);
    hash.add(std::as_bytes(std::span(rope.freq, static_cast<size_t>(rope.n_rot / 2))));
    const int64_t n_vocab = model_->hparams().n_vocab;
    for (int64_t i = 0; i < 8; ++i) {
        const auto id = static_cast<int32_t>(i * n_vocab / 8);
        ActBuffer row = activations_.residual;
        backend_->embed(model_->weights().token_embd, {&id, 1}, 1.0f, row);
        hash.add(std::as_bytes(std::span(row.f32, static_cast<size_t>(row.dim))));
    }
    fingerprint_ = hash.value();
    return *fingerprint_;
}

Result<void> Session::check_pages() const {
    if (!npu_ || !npu_->owns_kv_cache()) return {};
    return fail(ErrorCode::Unsupported,
                "a session file: expected the KV cache on the CPU, found it on the NPU");
}

Result<void> Session::save(const std::string& path) const {
    TSR_TRY_VOID(check_pages());
    gguf::OutputFile file;
    TSR_TRY_VOID(file.create(path));
    Hash64 hash;
    const auto append = [&](std::span<const std::byte> bytes) {
        hash.add(bytes);
        return file.append(bytes);
    };
    const Header header = header_of(fingerprint(), pages_->layout(), n_tok());
    TSR_TRY_VOID(append(bytes_of(header)));
    TSR_TRY_VOID(append(std::as_bytes(std::span(tokens_))));
    for (size_t i = 0; i < pages_of(n_tok()); ++i)
        TSR_TRY_VOID(append({sequence_->pages()[i], pages_->layout().page_bytes}));
    const uint64_t checksum = hash.value();
    TSR_TRY_VOID(file.append(std::as_bytes(std::span(&checksum, 1))));
    return file.commit();
}

Result<void> Session::restore(const std::string& path) {
    truncate(0);
    TSR_TRY_VOID(check_pages());
    TSR_TRY(const MappedFile file, MappedFile::open(path));
    ByteReader in(file.bytes());
    const auto broken = [&path](const std::string& what) {
        return fail(ErrorCode::Malformed, "'%s': %s", path.c_str(), what.c_str());
    };
    const auto header = in.get<Header>();
    if (!in.ok() || std::memcmp(header.magic, kSessionMagic, sizeof kSessionMagic) != 0)
        return broken("expected a saved session, which starts with \"TSRSESS1\"");
    const kv::Layout& layout = pages_->layout();
    TSR_TRY_VOID(check_header(header, header_of(fingerprint(), layout, 0), path));
    if (header.n_tok < 0 || header.n_tok > n_ctx_)
        return fail(ErrorCode::InvalidArgument,
                    "'%s': expected at most %lld tokens, found %lld (raise --ctx)", path.c_str(),
                    static_cast<long long>(n_ctx_), static_cast<long long>(header.n_tok));
    const size_t n_token_bytes = static_cast<size_t>(header.n_tok) * 4;
    const size_t n_pages = pages_of(header.n_tok);
    const size_t expected = sizeof(Header) + n_token_bytes + n_pages * layout.page_bytes + 8;
    if (in.size() != expected) return broken(strf("expected %zu bytes, found %zu", expected, in.size()));

    Hash64 hash;
    hash.add(bytes_of(header));
    const std::string_view tokens = in.view(n_token_bytes);
    hash.add(std::as_bytes(std::span(tokens)));
    const std::byte* pages = file.bytes().data() + in.pos();
    for (size_t i = 0; i < n_pages; ++i) hash.add({pages + i * layout.page_bytes, layout.page_bytes});
    in.skip(n_pages * layout.page_bytes);
    if (in.get<uint64_t>() != hash.value())
        return broken("its checksum does not match: the file was changed");

    TSR_CHECK(sequence_->reserve(header.n_tok));
    for (size_t i = 0; i < n_pages; ++i)
        std::memcpy(sequence_->pages()[i], pages + i * layout.page_bytes, layout.page_bytes);
    sequence_->advance(header.n_tok);
    tokens_.resize(static_cast<size_t>(header.n_tok));
    std::memcpy(tokens_.data(), tokens.data(), n_token_bytes);
    last_out_ = -1;
    return {};
}

}  // namespace tessera::engine

// Saved sessions: a header, the tokens, the pages of the KV cache and the states of recurrent layers as in
// memory, and a checksum over all of it. Pages and states have the same layout for every instruction set, so
// a file can move between machines. A fingerprint identifies the model.
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

/// Files of models without and with recurrent layers; the latter have a StateHeader.
constexpr std::string_view kMagic = "TSRSESS1", kStateMagic = "TSRSESS2";

/// Header of the file. Little endian, no padding.
struct Header {
    char magic[8];
    uint64_t fingerprint;  // of the model
    uint64_t page_bytes;
    int64_t n_tok;
    int32_t k_type, v_type;
};
static_assert(sizeof(Header) == 40);

/// Follows the header if the model has recurrent layers.
struct StateHeader {
    uint64_t slot_bytes = 0;  // of one state
    int64_t n_computed = 0;   // tokens in the KV cache; the others are computed by the next eval
    int64_t n_states = 0;
};
static_assert(sizeof(StateHeader) == 24);

template <class T>
std::span<const std::byte> bytes_of(const T& one) {
    return std::as_bytes(std::span(&one, 1));
}

bool has_magic(const Header& header, std::string_view magic) {
    return std::memcmp(header.magic, magic.data(), sizeof header.magic) == 0;
}

Header header_of(uint64_t fingerprint, const kv::Layout& layout, bool has_states, int64_t n_tok) {
    Header header{};
    std::memcpy(header.magic, (has_states ? kStateMagic : kMagic).data(), sizeof header.magic);
    header.fingerprint = fingerprint;
    header.page_bytes = layout.page_bytes;
    header.n_tok = n_tok;
    header.k_type = static_cast<int32_t>(layout.layers.front().k_type);
    header.v_type = static_cast<int32_t>(layout.layers.front().v_type);
    return header;
}

size_t pages_of(int64_t n_tok) { return static_cast<size_t>((n_tok + kKvPage - 1) / kKvPage); }

/// The parts of a saved session, views of the file.
struct SavedSession {
    int64_t n_tok = 0, n_computed = 0, n_states = 0;
    std::span<const std::byte> tokens, pages;
    std::span<const std::byte> states;  // [n_states] position, slot

    int64_t position(int64_t state, size_t slot_bytes) const {
        int64_t at = 0;
        std::memcpy(&at, states.data() + static_cast<size_t>(state) * (sizeof at + slot_bytes), sizeof at);
        return at;
    }
};

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
    if (std::memcmp(found.magic, expected.magic, sizeof found.magic) != 0)
        return differs("format", std::string(expected.magic, sizeof expected.magic),
                       std::string(found.magic, sizeof found.magic));
    if (found.page_bytes != expected.page_bytes)
        return differs("bytes of a page", strf("%llu", static_cast<unsigned long long>(expected.page_bytes)),
                       strf("%llu", static_cast<unsigned long long>(found.page_bytes)));
    return {};
}

Result<void> check_count(const char* what, int64_t found, int64_t most, const std::string& path,
                         const char* hint = "") {
    if (found >= 0 && found <= most) return {};
    return fail(ErrorCode::InvalidArgument, "'%s': expected at most %lld %s, found %lld%s", path.c_str(),
                static_cast<long long>(most), what, static_cast<long long>(found), hint);
}

/// States at ascending positions, the last one after the last computed token.
bool has_valid_positions(const SavedSession& saved, size_t slot_bytes) {
    int64_t before = 0;
    for (int64_t i = 0; i < saved.n_states; ++i) {
        const int64_t n_tok = saved.position(i, slot_bytes);
        if (n_tok <= before) return false;
        before = n_tok;
    }
    return before == saved.n_computed;
}

/// Ids of the vocabulary: after a rewind the model may compute any of the tokens again.
Result<void> check_ids(std::span<const std::byte> tokens, int64_t n_vocab, const std::string& path) {
    for (size_t at = 0; at < tokens.size(); at += sizeof(int32_t)) {
        int32_t id = 0;
        std::memcpy(&id, tokens.data() + at, sizeof id);
        if (id < 0 || id >= n_vocab)
            return fail(ErrorCode::Malformed, "'%s': token %zu: expected an id from 0 to %lld, found %d",
                        path.c_str(), at / sizeof id, static_cast<long long>(n_vocab - 1), id);
    }
    return {};
}

/// Checks and divides a file. `expected` is the header of a full context of this session.
Result<SavedSession> read_session(std::span<const std::byte> file, const Header& expected, size_t slot_bytes,
                                  const std::string& path) {
    ByteReader in(file);
    const auto broken = [&path](const std::string& what) {
        return fail(ErrorCode::Malformed, "'%s': %s", path.c_str(), what.c_str());
    };
    const auto header = in.get<Header>();
    if (!in.ok() || (!has_magic(header, kMagic) && !has_magic(header, kStateMagic)))
        return broken("expected a saved session, which starts with \"TSRSESS1\" or \"TSRSESS2\"");
    TSR_TRY_VOID(check_header(header, expected, path));
    TSR_TRY_VOID(check_count("tokens", header.n_tok, expected.n_tok, path, " (raise --ctx)"));
    const bool has_states = slot_bytes > 0;
    const StateHeader states = has_states ? in.get<StateHeader>() : StateHeader{.n_computed = header.n_tok};
    if (!in.ok()) return broken(strf("expected the header of the states, found %zu bytes", in.size()));
    if (states.slot_bytes != slot_bytes)
        return broken(strf("bytes of a state: expected %zu, found %llu", slot_bytes,
                           static_cast<unsigned long long>(states.slot_bytes)));
    TSR_TRY_VOID(check_count("computed tokens", states.n_computed, header.n_tok, path));
    TSR_TRY_VOID(check_count("states", states.n_states, states.n_computed, path));

    const size_t n_token_bytes = static_cast<size_t>(header.n_tok) * 4;
    const size_t n_page_bytes = pages_of(states.n_computed) * expected.page_bytes;
    const size_t record_bytes = sizeof(int64_t) + slot_bytes;
    const size_t n_state_bytes = static_cast<size_t>(states.n_states) * record_bytes;
    const size_t whole = in.pos() + n_token_bytes + n_page_bytes + n_state_bytes + sizeof(uint64_t);
    if (file.size() != whole) return broken(strf("expected %zu bytes, found %zu", whole, file.size()));

    SavedSession saved{header.n_tok, states.n_computed, states.n_states, {}, {}, {}};
    saved.tokens = file.subspan(in.pos(), n_token_bytes);
    saved.pages = file.subspan(in.pos() + n_token_bytes, n_page_bytes);
    saved.states = file.subspan(in.pos() + n_token_bytes + n_page_bytes, n_state_bytes);
    Hash64 hash;
    hash.add(bytes_of(header));
    if (has_states) hash.add(bytes_of(states));
    hash.add(saved.tokens);
    for (size_t at = 0; at < n_page_bytes; at += expected.page_bytes)
        hash.add(saved.pages.subspan(at, expected.page_bytes));
    for (size_t at = 0; at < n_state_bytes; at += record_bytes) {
        hash.add(saved.states.subspan(at, sizeof(int64_t)));
        hash.add(saved.states.subspan(at + sizeof(int64_t), slot_bytes));
    }
    in.seek(file.size() - sizeof(uint64_t));
    if (in.get<uint64_t>() != hash.value())
        return broken("its checksum does not match: the file was changed");
    if (has_states && !has_valid_positions(saved, slot_bytes))
        return broken("expected states at ascending positions up to the last computed token, found others");
    return saved;
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
        backend_->embed({.table = model_->weights().token_embd, .tokens = {&id, 1}, .x = &row});
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
    const size_t slot_bytes = states_->layout().slot_bytes;
    const int64_t n_computed = sequence_->n_tok();
    sequence_->checkpoint();
    const std::span<const kv::Checkpoint> states = sequence_->checkpoints();
    TSR_TRY_VOID(append(bytes_of(header_of(fingerprint(), pages_->layout(), slot_bytes > 0, n_tok()))));
    if (slot_bytes > 0)
        TSR_TRY_VOID(append(bytes_of(StateHeader{slot_bytes, n_computed, std::ssize(states)})));
    TSR_TRY_VOID(append(std::as_bytes(std::span(tokens_))));
    for (size_t i = 0; i < pages_of(n_computed); ++i)
        TSR_TRY_VOID(append({sequence_->pages()[i], pages_->layout().page_bytes}));
    for (const kv::Checkpoint& one : states) {
        TSR_TRY_VOID(append(bytes_of(one.n_tok)));
        TSR_TRY_VOID(append({reinterpret_cast<const std::byte*>(one.state), slot_bytes}));
    }
    const uint64_t checksum = hash.value();
    TSR_TRY_VOID(file.append(bytes_of(checksum)));
    return file.commit();
}

Result<void> Session::restore(const std::string& path) {
    truncate(0);
    TSR_TRY_VOID(check_pages());
    TSR_TRY(const MappedFile file, MappedFile::open(path));
    const kv::Layout& layout = pages_->layout();
    const size_t slot_bytes = states_->layout().slot_bytes;
    TSR_TRY(const SavedSession saved,
            read_session(file.bytes(), header_of(fingerprint(), layout, slot_bytes > 0, n_ctx_), slot_bytes,
                         path));
    TSR_TRY_VOID(check_ids(saved.tokens, model_->hparams().n_vocab, path));
    // Without recurrent layers the whole text is computed at once, otherwise state by state.
    for (int64_t i = 0; i < saved.n_states || sequence_->n_tok() < saved.n_computed; ++i) {
        const std::byte* const state = saved.states.data() + static_cast<size_t>(i) * (8 + slot_bytes);
        const int64_t end = saved.n_states > 0 ? saved.position(i, slot_bytes) : saved.n_computed;
        TSR_CHECK(sequence_->reserve(end - sequence_->n_tok()));
        if (saved.n_states > 0) std::memcpy(sequence_->state_out(), state + 8, slot_bytes);
        sequence_->advance(end - sequence_->n_tok());
        sequence_->checkpoint();
    }
    for (size_t i = 0; i < pages_of(saved.n_computed); ++i)
        std::memcpy(sequence_->pages()[i], saved.pages.data() + i * layout.page_bytes, layout.page_bytes);
    tokens_.resize(static_cast<size_t>(saved.n_tok));
    std::memcpy(tokens_.data(), saved.tokens.data(), saved.tokens.size());
    last_out_ = -1;
    return {};
}

}  // namespace tessera::engine

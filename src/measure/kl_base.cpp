// The file of a base: a header, tokens, rows of quantized log probabilities. open() checks everything but the
// rows; the two floats of a row are checked when it is read.
#include "src/measure/kl_base.h"

#include <cmath>
#include <cstring>

#include "common/bytes.h"

namespace tessera::measure {

namespace {

constexpr std::string_view kKlBaseMagic = "_logits_";
constexpr size_t kHeaderBytes = 20;

size_t row_size(int64_t n_vocab) { return static_cast<size_t>(2 * ((n_vocab + 1) / 2) + 4) * 2; }

}  // namespace

Result<KlBase> KlBase::open(const std::string& path) {
    KlBase base;
    TSR_TRY(base.file_, MappedFile::open(path));
    const auto broken = [&path](const std::string& what) {
        return fail(ErrorCode::Malformed, "'%s': %s", path.c_str(), what.c_str());
    };
    ByteReader in(base.file_.bytes());
    if (in.view(kKlBaseMagic.size()) != kKlBaseMagic)
        return broken("expected a base of predictions, which starts with \"_logits_\"");
    Windows& windows = base.windows_;
    windows.n_ctx = in.get<int32_t>();
    base.n_vocab_ = in.get<int32_t>();
    windows.n_windows = in.get<int32_t>();
    if (!in.ok() || windows.n_ctx < 4 || base.n_vocab_ < 1 || windows.n_windows < 1)
        return broken(
            strf("expected 4 or more tokens a window, a vocabulary and windows, found %lld, %lld, "
                 "%lld",
                 static_cast<long long>(windows.n_ctx), static_cast<long long>(base.n_vocab_),
                 static_cast<long long>(windows.n_windows)));
    base.row_bytes_ = row_size(base.n_vocab_);
    // Factors below 2^31, 2^31 and 2^33: the product is checked in double, since it may overflow 64 bits.
    const double expected =
        static_cast<double>(kHeaderBytes) +
        static_cast<double>(windows.n_windows) *
            (4.0 * static_cast<double>(windows.n_ctx) +
             static_cast<double>(windows.n_judged()) * static_cast<double>(base.row_bytes_));
    if (static_cast<double>(in.size()) != expected)
        return broken(strf("expected %.0f bytes, found %zu", expected, in.size()));
    const auto n_tokens = static_cast<size_t>(windows.n_windows * windows.n_ctx);
    windows.tokens.resize(n_tokens);
    std::memcpy(windows.tokens.data(), in.view(n_tokens * 4).data(), n_tokens * 4);
    for (const int32_t id : windows.tokens)
        if (id < 0 || id >= base.n_vocab_)
            return broken(strf("expected tokens from 0 to %lld, found %d",
                               static_cast<long long>(base.n_vocab_ - 1), id));
    base.rows_at_ = in.pos();
    return base;
}

Result<BaseRow> KlBase::row(int64_t w, int64_t j) const {
    const auto index = static_cast<size_t>(w * windows_.n_judged() + j);
    const std::byte* at = file_.bytes().data() + rows_at_ + index * row_bytes_;
    BaseRow row;
    std::memcpy(&row.scale, at, 4);
    std::memcpy(&row.least, at + 4, 4);
    if (!std::isfinite(row.scale) || !std::isfinite(row.least))
        return fail(ErrorCode::Malformed, "'%s': row %zu: expected finite numbers", file_.path().c_str(),
                    index);
    // The header has 20 bytes and everything before a row is a multiple of 4 bytes, so rows are aligned in
    // the mapping.
    row.steps = {reinterpret_cast<const uint16_t*>(at + 8), static_cast<size_t>(n_vocab_)};
    return row;
}

Result<std::unique_ptr<KlBaseWriter>> KlBaseWriter::create(const std::string& path, const Windows& windows,
                                                           int64_t n_vocab) {
    std::unique_ptr<KlBaseWriter> out(new KlBaseWriter);
    TSR_TRY_VOID(out->file_.create(path));
    const int32_t numbers[] = {static_cast<int32_t>(windows.n_ctx), static_cast<int32_t>(n_vocab),
                               static_cast<int32_t>(windows.n_windows)};
    TSR_TRY_VOID(out->file_.append(std::as_bytes(std::span(kKlBaseMagic))));
    TSR_TRY_VOID(out->file_.append(std::as_bytes(std::span(numbers))));
    TSR_TRY_VOID(out->file_.append(std::as_bytes(std::span(windows.tokens))));
    return out;
}

Result<void> KlBaseWriter::append(const BaseRow& row) {
    const float numbers[] = {row.scale, row.least};
    TSR_TRY_VOID(file_.append(std::as_bytes(std::span(numbers))));
    TSR_TRY_VOID(file_.append(std::as_bytes(row.steps)));
    const uint16_t padding = 0;
    if (row.steps.size() % 2) return file_.append(std::as_bytes(std::span(&padding, 1)));
    return {};
}

}  // namespace tessera::measure

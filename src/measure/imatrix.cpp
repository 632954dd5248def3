// The observer is a backend that forwards every operation to the computing backend, and before it sums the
// squares of the inputs of its products. The session's activations have all floats. Inputs of experts are
// read from the buffer that their rows are copied from.
#include "src/measure/imatrix.h"

#include <algorithm>
#include <utility>

#include "src/model/tensor_names.h"

namespace tessera::measure {

class ImatrixCollector::Observer final : public Backend {
  public:
    Observer(CpuBackend& inner, const Model& model) : inner_(inner), names_(tensor_names(model)) {}

    /// Returns the sums since the last call and resets them. Errors name the first matrix, in order of
    /// execution, with an input that is not finite.
    Result<convert::Imatrix> take() {
        convert::Imatrix out;
        std::swap(out.entries, sums_.entries);
        const std::vector<std::string> order = std::exchange(order_, {});
        for (const std::string& name : order) TSR_TRY_VOID(out.entries.at(name).check(name));
        return out;
    }

    void run(const Op& op) override {
        std::visit([this](const auto& one) { observe_products(one); }, op);
        inner_.run(op);
    }

  private:
    template <class AnyOperation>
    void observe_products(const AnyOperation& op) {
        int64_t n_tok = 0;
        if constexpr (requires { op.n_tok; }) n_tok = op.n_tok;
        each_product(op, Products{*this, n_tok});
    }
    /// The inputs of each product of an operation.
    struct Products {
        Observer& observer;
        int64_t n_tok;

        void operator()(const ActBuffer* x, const Weight& w) const { observer.observe(*x, n_tok, w); }
        void operator()(const ActBuffer* y, const Weight& w, const MoeRoutes* routes) const {
            observer.observe_experts(y->dim, *routes, w, [y](int64_t row) { return y->row(row); });
        }
        void operator()(const ActBuffer* x, const Weight& w, const MoeRoutes* routes,
                        const ActBuffer*) const {
            observer.observe_experts(x->dim, *routes, w,
                                     [x, routes](int64_t row) { return x->row(routes->token_of_row[row]); });
        }
    };
    /// The parts of a fused tensor share one input, so the first part stands for all.
    convert::Imatrix::Entry* entry_of(const Weight& w, int64_t n_in) {
        if (!w || inner_.pool().aborted()) return nullptr;
        const TensorRows& tensor = names_.at(w.data);
        if (tensor.row0 > 0) return nullptr;
        convert::Imatrix::Entry& entry = sums_.entries[tensor.name];
        if (entry.sums.empty()) order_.push_back(tensor.name);
        const auto n_matrices = static_cast<size_t>(std::max<int64_t>(1, w.n_expert));
        entry.n_in = n_in;
        entry.sums.resize(n_matrices * static_cast<size_t>(n_in));
        entry.counts.resize(n_matrices);
        return &entry;
    }

    /// sums[i] += row(r)[i]^2 for rows first .. last; each work item has a range of columns.
    template <class Row>
    static void add_squares(const Row& row, int64_t first, int64_t last, int64_t col0, int64_t n_cols,
                            double* sums) {
        for (int64_t r = first; r < last; ++r) {
            const float* x = row(r);
            for (int64_t i = col0; i < col0 + n_cols; ++i)
                sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        }
    }

    void observe(const ActBuffer& x, int64_t n_tok, const Weight& w) {
        convert::Imatrix::Entry* entry = entry_of(w, x.dim);
        if (!entry) return;
        entry->counts[0] += static_cast<double>(n_tok);
        const auto row = [&x](int64_t t) { return x.row(t); };
        inner_.pool().run((x.dim + kUnitCols - 1) / kUnitCols, [&](int64_t unit, int) {
            const int64_t col0 = unit * kUnitCols;
            add_squares(row, 0, n_tok, col0, std::min(kUnitCols, x.dim - col0), entry->sums.data());
        });
    }

    template <class Row>
    void observe_experts(int64_t dim, const MoeRoutes& routes, const Weight& w, const Row& row) {
        convert::Imatrix::Entry* entry = entry_of(w, dim);
        if (!entry) return;
        inner_.pool().run(routes.n_expert, [&](int64_t e, int) {
            entry->counts[static_cast<size_t>(e)] +=
                static_cast<double>(routes.expert_offset[e + 1] - routes.expert_offset[e]);
            add_squares(row, routes.expert_offset[e], routes.expert_offset[e + 1], 0, dim,
                        entry->sums.data() + e * dim);
        });
    }

    static constexpr int64_t kUnitCols = 256;

    CpuBackend& inner_;
    const TensorNames names_;
    convert::Imatrix sums_;
    std::vector<std::string> order_;  // names of the entries, in order of first use
};

ImatrixCollector::ImatrixCollector(engine::Session& session)
    : session_(session), observer_(std::make_unique<Observer>(session.backend(), session.model())) {
    session_.compute_through(observer_.get());
}

ImatrixCollector::~ImatrixCollector() { session_.compute_through(nullptr); }

Result<void> ImatrixCollector::add_chunk(std::span<const int32_t> tokens) {
    session_.truncate(0);
    const auto computed = session_.eval_all(tokens, [](int64_t, int64_t, const float*) { return true; });
    auto taken = observer_->take();
    TSR_TRY_VOID(computed);
    TSR_TRY(convert::Imatrix chunk, std::move(taken));
    chunk.n_chunks = 1;
    chunk.chunk_size = static_cast<int64_t>(tokens.size());
    return imatrix_.add(chunk);
}

}  // namespace tessera::measure

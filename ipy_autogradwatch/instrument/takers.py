"""Names that tell what becomes of a value that they are given."""

from __future__ import annotations

LOOKS = frozenset(
    [
        "__format__",
        "__len__",
        "__repr__",
        "all",
        "allclose",
        "any",
        "argmax",
        "argmin",
        "argsort",
        "bincount",
        "count_nonzero",
        "data_ptr",
        "device",
        "dim",
        "dim_order",
        "dtype",
        "element_size",
        "eq",
        "equal",
        "ge",
        "get_device",
        "grad_fn",
        "gt",
        "indices",
        "is_contiguous",
        "is_cuda",
        "is_leaf",
        "is_sparse",
        "isclose",
        "isfinite",
        "isinf",
        "isnan",
        "item",
        "itemsize",
        "layout",
        "le",
        "lt",
        "multinomial",
        "names",
        "nbytes",
        "ndim",
        "ne",
        "nelement",
        "new",
        "new_empty",
        "new_full",
        "new_ones",
        "new_tensor",
        "new_zeros",
        "nonzero",
        "numel",
        "numpy",
        "requires_grad",
        "shape",
        "size",
        "storage",
        "stride",
        "tolist",
        "type",
        "untyped_storage",
    ]
)
"""Methods and attributes that tell something about a tensor, or take its values out of torch."""

LOOKING_FUNCTIONS = frozenset(
    [
        "add_histogram",
        "add_image",
        "add_images",
        "add_scalar",
        "add_scalars",
        "add_text",
        "allclose",
        "argmax",
        "argmin",
        "argsort",
        "bar",
        "bincount",
        "bool",
        "complex",
        "contourf",
        "count_nonzero",
        "debug",
        "display",
        "dump",
        "dumps",
        "empty_like",
        "equal",
        "fill_between",
        "float",
        "format",
        "full_like",
        "hash",
        "hist",
        "id",
        "imsave",
        "imshow",
        "info",
        "int",
        "is_tensor",
        "isclose",
        "isfinite",
        "isinf",
        "isinstance",
        "isnan",
        "len",
        "make_grid",
        "multinomial",
        "numel",
        "ones_like",
        "pcolormesh",
        "plot",
        "pprint",
        "print",
        "rand_like",
        "randint_like",
        "randn_like",
        "repr",
        "round",
        "save",
        "save_image",
        "scatter",
        "set_description",
        "set_postfix",
        "set_postfix_str",
        "str",
        "type",
        "warning",
        "zeros_like",
    ]
)
"""Functions, and methods of other objects, that look at an argument, or keep it elsewhere."""

LOOKING_MODULES = frozenset(
    [
        "ax",
        "axes",
        "display",
        "fig",
        "go",
        "json",
        "log",
        "logger",
        "logging",
        "math",
        "matplotlib",
        "metrics",
        "np",
        "numpy",
        "pandas",
        "pd",
        "plt",
        "px",
        "pyplot",
        "seaborn",
        "self.logger",
        "self.writer",
        "sklearn",
        "sns",
        "torchvision",
        "tqdm",
        "vutils",
        "wandb",
        "warnings",
        "writer",
    ]
)
"""Where nothing is recorded: what goes in there is looked at."""

COPYING_METHODS = frozenset({"copy_", "view_as", "expand_as", "type_as", "reshape_as", "eq", "ne"})
"""The argument of one of these is copied or compared; nothing is computed from it in place."""

NO_WRITE = frozenset({"requires_grad_", "retain_grad_", "share_memory_"})
"""End like an in-place method, and leave the elements alone."""

WRITING_DUNDERS = frozenset(
    f"__{name}__" for name in ["setitem", "iadd", "isub", "imul", "itruediv", "ipow", "imatmul"]
)

WRITING_ARRAY_METHODS = frozenset({"fill", "itemset", "partition", "put", "sort"})
"""Methods of a numpy array, which shares the memory, and that no version counter sees."""

WITH_INDICES = frozenset(
    {"max", "min", "topk", "sort", "kthvalue", "mode", "median", "cummax", "cummin"}
)
"""Return values and their indices; to the indices there is no gradient in any case."""

TORCH = frozenset({"torch", "F", "functional"})

PASSING_FUNCTIONS = frozenset(
    [
        "abs",
        "dict",
        "enumerate",
        "list",
        "max",
        "min",
        "reversed",
        "set",
        "sorted",
        "sum",
        "tuple",
        "zip",
    ]
)
"""Built-in functions whose result is made of what they are given."""

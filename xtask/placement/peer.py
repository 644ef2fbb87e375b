"""Solves placements of flows in a NIC by HiGHS: the models of OVS-POF-TC (placement and
replacement) without their auxiliary variables, since rates are given.

Reads a file: a line `PLACES NIC BATCH_IN BATCH_OUT`, then for each flow a line
`STATE KERNEL`. STATE is `new`, `kernel` or `nic`; NIC and KERNEL are latencies. Prints the
objective, the bound and the seconds of the solver.
"""

import sys
import time

import highspy
import numpy


def main(path):
    with open(path, encoding="ascii") as file:
        places, nic, batch_in, batch_out = map(int, file.readline().split())
        lines = [line.split() for line in file]
    kernel = numpy.array([int(latency) for _, latency in lines], dtype=float)
    is_new = numpy.array([state == "new" for state, _ in lines])
    flows = len(lines)
    before = sum(state == "nic" for state, _ in lines)
    new = numpy.flatnonzero(is_new)
    old = numpy.flatnonzero(~is_new)
    gamma, xi = flows, flows + 1

    # Rows: (18) sum x <= places; (25) sum of new x <= min(new, places) gamma;
    # (30) sum of old x + before xi >= before.
    rows = [
        (numpy.arange(flows), numpy.ones(flows), -highspy.kHighsInf, places),
        (
            numpy.append(new, gamma),
            numpy.append(numpy.ones(len(new)), -min(len(new), places)),
            -highspy.kHighsInf,
            0,
        ),
        (
            numpy.append(old, xi),
            numpy.append(numpy.ones(len(old)), before),
            before,
            highspy.kHighsInf,
        ),
    ]
    model = highspy.HighsLp()
    model.num_col_ = flows + 2
    model.num_row_ = len(rows)
    model.col_cost_ = numpy.concatenate([nic - kernel, [batch_in, batch_out]])
    model.col_lower_ = numpy.zeros(flows + 2)
    model.col_upper_ = numpy.ones(flows + 2)
    model.row_lower_ = numpy.array([row[2] for row in rows], dtype=float)
    model.row_upper_ = numpy.array([row[3] for row in rows], dtype=float)
    model.offset_ = float(kernel.sum())
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lengths = [len(row[0]) for row in rows]
    model.a_matrix_.start_ = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int32)
    model.a_matrix_.index_ = numpy.concatenate([row[0] for row in rows]).astype(numpy.int32)
    model.a_matrix_.value_ = numpy.concatenate([row[1] for row in rows]).astype(float)
    model.integrality_ = [highspy.HighsVarType.kInteger] * (flows + 2)

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.5)
    solver.passModel(model)
    start = time.perf_counter()
    solver.run()
    seconds = time.perf_counter() - start
    info = solver.getInfo()
    status = solver.modelStatusToString(solver.getModelStatus())
    print(round(info.objective_function_value), round(info.mip_dual_bound), f"{seconds:.3f}")
    return 0 if status == "Optimal" else f"HiGHS ended with: {status}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

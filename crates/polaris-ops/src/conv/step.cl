// Places in three axes, for the sums of convolutions and of their weights' gradients.

// A place in three axes, the innermost last.
typedef struct {
    uint outer, row, column;
} Step;

Step step_at(uint at, uint rows, uint columns)
{
    Step step;
    step.column = at % columns;
    step.row = at / columns % rows;
    step.outer = at / columns / rows;
    return step;
}

// Without a division: a sum of two places overflows each axis at most once.
Step advance(Step step, Step by, uint rows, uint columns)
{
    step.column += by.column;
    step.row += by.row;
    step.outer += by.outer;
    if (step.column >= columns) {
        step.column -= columns;
        step.row += 1;
    }
    if (step.row >= rows) {
        step.row -= rows;
        step.outer += 1;
    }
    return step;
}

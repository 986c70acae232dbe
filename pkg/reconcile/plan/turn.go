package plan

// Turn is the turn of a writer of an object: of the loop of objects, of a reconcile, or of neither. The lock of the lane guards it. The zero value is free.
//
//	free           the loop of objects begins the heal of an edit
//	waiting        a reconcile has reserved the object, with a task that the loop does earlier if the object is edited
//	a reconcile's  it applies the object, or has reserved it without such a task: the loop leaves edits for the time after Release
//	the loop's     it heals the object, or does the task that waits: the reconcile leaves its own turn for the time after EndHeal
type Turn struct {
	reserved, healing bool
	// due is the task that waits, until it begins.
	due *Task
}

// Taken reports whether the loop of objects has to leave an edit until Release or EndHeal.
func (t *Turn) Taken() bool { return t.healing || t.reserved && t.due == nil }

// Healing reports whether the loop of objects writes to the object.
func (t *Turn) Healing() bool { return t.healing }

// Due returns the task that the loop of objects does if the object is edited, or nil.
func (t *Turn) Due() *Task { return t.due }

// Reserve begins the turn of a reconcile. due is the task that the loop may do before, or nil.
func (t *Turn) Reserve(due *Task) { t.reserved, t.due = true, due }

// Begin has the reconcile begin its task, with the causes that the loop has left to it. The object must not be healed at present.
func (t *Turn) Begin(task Task) Task {
	if t.due != nil {
		task, t.due = task.With(t.due.Cause), nil
	}
	return task
}

// Withdraw takes the waiting task from the loop. It reports whether the loop does the task at present, and keeps it then.
func (t *Turn) Withdraw() (begun bool) {
	if !t.healing {
		t.due = nil
	}
	return t.due != nil
}

// Release ends the turn of a reconcile, and reports whether it had one.
func (t *Turn) Release() (reserved bool) {
	reserved = t.reserved
	t.reserved, t.due = false, nil
	return reserved
}

// Heal begins the turn of the loop of objects.
func (t *Turn) Heal() { t.healing = true }

// EndHeal ends the turn of the loop of objects.
func (t *Turn) EndHeal() { t.healing = false }

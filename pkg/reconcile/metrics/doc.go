// Package metrics counts reverts, how long they take and for how long foreign values stand, delayed
// reverts, and what the backstop finds. It reports the conditions of the VidraResources. The number of
// its series is bounded, whatever names users choose.
package metrics

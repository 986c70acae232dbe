// Package metrics counts reverts, their duration and the exposure of foreign values, delayed reverts, and findings of the
// backstop. It reports the conditions of the VidraResources. The number of its series is bounded, whatever names users choose.
package metrics

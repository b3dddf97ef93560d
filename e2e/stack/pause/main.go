// Pause is the first process of a PID namespace: of the stack's node, and of every pod's sandbox.
// It adopts orphans, reaps them when they end, and ends when it is asked to. Nothing else.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// One child's end may stand for many: the kernel merges signals, so each round reaps all.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for caught := range signals {
		if caught != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}

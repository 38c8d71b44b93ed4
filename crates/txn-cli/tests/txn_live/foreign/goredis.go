// What go-redis is asked to do. Arguments: port of a node, of a node far away, process of the first
// node, which is killed in the end (0: it is not), version of the protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		panic(fmt.Sprintf("%v and not %v", got, want))
	}
}

func main() {
	var given [4]int
	for place := range given {
		var err error
		given[place], err = strconv.Atoi(os.Args[place+1])
		must(err)
	}
	home, far, pid, protocol := given[0], given[1], given[2], given[3]
	ctx := context.Background()
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	// A dialer that tries another node where the first is dead, as an application would have.
	var dialed atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := net.DialTimeout(network, address, time.Second)
		if err != nil {
			dialed.Add(1)
			connection, err = net.DialTimeout(network, at(far), time.Second)
		}
		return connection, err
	}
	// A busy machine may be slow, and what was asked twice would be counted twice.
	patience := 30 * time.Second
	r := redis.NewClient(&redis.Options{
		Addr: at(home), Protocol: protocol, Dialer: dial, ReadTimeout: patience,
	})
	other := redis.NewClient(&redis.Options{
		Addr: at(far), Protocol: protocol, ReadTimeout: patience,
	})
	must(r.Del(ctx, "{r0}:count", "{r0}:x", "{r1}:y", "{r1}:h").Err())

	replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 50 {
			p.Incr(ctx, "{r0}:count")
		}
		return nil
	})
	must(err)
	same(replies[49].(*redis.IntCmd).Val(), 50)

	var both *redis.SliceCmd
	_, err = r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "{r0}:x", 1, 0)
		p.Set(ctx, "{r1}:y", 2, 0)
		both = p.MGet(ctx, "{r1}:y", "{r0}:x")
		return nil
	})
	must(err)
	same(both.Val(), "[2 1]")

	err = r.Watch(ctx, func(tx *redis.Tx) error {
		must(other.Set(ctx, "{r1}:y", 3, 0).Err())
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "{r0}:x")
			return nil
		})
		return err
	}, "{r0}:x", "{r1}:y")
	if !errors.Is(err, redis.TxFailedErr) {
		panic(fmt.Sprintf("a conflict was not seen: %v", err))
	}
	same(r.Get(ctx, "{r0}:x").Val(), "1")

	move := redis.NewScript("redis.call('DECRBY', KEYS[1], ARGV[1]) " +
		"return redis.call('INCRBY', KEYS[2], ARGV[1])")
	keys := []string{"{r0}:x", "{r1}:y"}
	for _, want := range []int{8, 13} {
		// EVALSHA at first, and EVAL where the script is not known.
		moved, err := move.Run(ctx, r, keys, 5).Int()
		must(err)
		same(moved, want)
	}
	same(other.MGet(ctx, keys...).Val(), "[-9 13]")
	err = r.LPush(ctx, "{r0}:x", 1).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		panic(fmt.Sprintf("no error but %v", err))
	}
	must(r.HSet(ctx, "{r1}:h", "f", 1, "g", 2).Err())
	same(r.HGetAll(ctx, "{r1}:h").Val(), "map[f:1 g:2]")

	if pid > 0 {
		must(syscall.Kill(pid, syscall.SIGKILL))
		time.Sleep(100 * time.Millisecond)
		value, err := r.Get(ctx, "{r0}:x").Result()
		must(err)
		same(value, "-9")
		if dialed.Load() == 0 {
			panic("it never connected again")
		}
		same(r.Incr(ctx, "{r0}:x").Val(), -8)
	}
	fmt.Println("fine")
}

;; The inner loops of a transformer in WebAssembly, four float32 numbers to an instruction
;; (SIMD). A page owns the memory and says where its vectors lie; kernels.js calls these
;; functions, and has each of them in plain JavaScript for browsers that refuse this file.
;;
;; Units. Addresses, steps from one row to the next and lengths ($inner, $width, $length)
;; are in bytes; $rows, $columns and $count are numbers of rows. Any of them may be 0, no
;; length needs to be a multiple of anything, and outputs may not overlap inputs.
;; After a change, tools/kernels.py compiles it; a test compares the bytes.
(module
  (import "env" "memory" (memory 1))

  ;; The sums of four vectors, as the four lanes of one.
  (func $lane_sums (param $a v128) (param $b v128) (param $c v128) (param $d v128) (result v128)
    (local $ab v128) (local $cd v128)
    (local.set $ab (f32x4.add ;; lanes a0 + a2, b0 + b2, a1 + a3, b1 + b3
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b))))
    (local.set $cd (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d))))
    (f32x4.add
      (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $ab) (local.get $cd))
      (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $ab) (local.get $cd))))

  ;; out[r, c] = x[r] · w[c] + bias[c]: a linear layer, or the scores of attention. A bias
  ;; at address 0 is none. Steps lead from row to row of out, x and w; out[r] and bias are
  ;; without gaps.
  (func (export "dots") (param $out i32) (param $x i32) (param $w i32) (param $bias i32)
    (param $rows i32) (param $columns i32) (param $inner i32)
    (param $out_step i32) (param $x_step i32) (param $w_step i32)
    (local $column i32) (local $offset i32) (local $one_by_one i32) (local $step i32)
    (local $k i32) (local $whole i32) (local $w0 i32) (local $w1 i32) (local $w2 i32) (local $w3 i32)
    (local $v v128) (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (if (i32.or (i32.eqz (local.get $rows)) (i32.eqz (local.get $columns))) (then (return)))
    (local.set $whole (i32.and (local.get $inner) (i32.const -16)))
    ;; Four columns at a time; the last four may begin among the four before. Where there
    ;; are fewer, each by itself, and all lanes alike.
    (local.set $one_by_one (i32.lt_u (local.get $columns) (i32.const 4)))
    (local.set $step (select (i32.const 0) (local.get $w_step) (local.get $one_by_one)))
    (loop $row
      (local.set $column (i32.const 0))
      (loop $next
        (if (i32.gt_u (local.get $column) (i32.sub (local.get $columns) (i32.const 4)))
          (then (local.set $column (i32.sub (local.get $columns) (i32.const 4)))))
        (local.set $w0 (i32.add (local.get $w) (i32.mul (local.get $column) (local.get $w_step))))
        (local.set $w1 (i32.add (local.get $w0) (local.get $step)))
        (local.set $w2 (i32.add (local.get $w1) (local.get $step)))
        (local.set $w3 (i32.add (local.get $w2) (local.get $step)))
        (local.set $a (v128.const i32x4 0 0 0 0))
        (local.set $b (local.get $a)) (local.set $c (local.get $a)) (local.set $d (local.get $a))
        (local.set $k (i32.const 0))
        (if (local.get $whole) (then (loop $along
          (local.set $v (v128.load (i32.add (local.get $x) (local.get $k))))
          (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w0) (local.get $k))))))
          (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w1) (local.get $k))))))
          (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w2) (local.get $k))))))
          (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w3) (local.get $k))))))
          (br_if $along (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 16))) (local.get $whole))))))
        (if (i32.lt_u (local.get $k) (local.get $inner)) (then (loop $rest ;; a number in lane 0
          (local.set $v (v128.load32_zero (i32.add (local.get $x) (local.get $k))))
          (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (v128.load32_zero (i32.add (local.get $w0) (local.get $k))))))
          (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $v) (v128.load32_zero (i32.add (local.get $w1) (local.get $k))))))
          (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (v128.load32_zero (i32.add (local.get $w2) (local.get $k))))))
          (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (v128.load32_zero (i32.add (local.get $w3) (local.get $k))))))
          (br_if $rest (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 4))) (local.get $inner))))))
        (local.set $v (call $lane_sums (local.get $a) (local.get $b) (local.get $c) (local.get $d)))
        (local.set $offset (i32.shl (local.get $column) (i32.const 2)))
        (if (local.get $one_by_one)
          (then
            (if (local.get $bias) (then (local.set $v (f32x4.add (local.get $v)
              (v128.load32_zero (i32.add (local.get $bias) (local.get $offset)))))))
            (v128.store32_lane 0 (i32.add (local.get $out) (local.get $offset)) (local.get $v))
            (local.set $column (i32.add (local.get $column) (i32.const 1))))
          (else
            (if (local.get $bias) (then (local.set $v (f32x4.add (local.get $v)
              (v128.load (i32.add (local.get $bias) (local.get $offset)))))))
            (v128.store (i32.add (local.get $out) (local.get $offset)) (local.get $v))
            (local.set $column (i32.add (local.get $column) (i32.const 4)))))
        (br_if $next (i32.lt_u (local.get $column) (local.get $columns))))
      (local.set $x (i32.add (local.get $x) (local.get $x_step)))
      (local.set $out (i32.add (local.get $out) (local.get $out_step)))
      (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

  ;; out[c] = scales[c] * (x · w[c]): a linear layer whose matrix w is int8, $columns rows
  ;; of $inner integers without gaps.
  (func (export "dots8") (param $out i32) (param $x i32) (param $w i32) (param $scales i32)
    (param $columns i32) (param $inner i32)
    (local $column i32) (local $offset i32) (local $one_by_one i32) (local $step i32)
    (local $k i32) (local $whole i32) (local $at i32) (local $w0 i32) (local $w1 i32) (local $w2 i32) (local $w3 i32)
    (local $low v128) (local $high v128) (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (if (i32.eqz (local.get $columns)) (then (return)))
    (local.set $whole (i32.and (local.get $inner) (i32.const -8)))
    (local.set $one_by_one (i32.lt_u (local.get $columns) (i32.const 4)))
    (local.set $step (select (i32.const 0) (local.get $inner) (local.get $one_by_one)))
    (loop $next
      (if (i32.gt_u (local.get $column) (i32.sub (local.get $columns) (i32.const 4)))
        (then (local.set $column (i32.sub (local.get $columns) (i32.const 4)))))
      (local.set $w0 (i32.add (local.get $w) (i32.mul (local.get $column) (local.get $inner))))
      (local.set $w1 (i32.add (local.get $w0) (local.get $step)))
      (local.set $w2 (i32.add (local.get $w1) (local.get $step)))
      (local.set $w3 (i32.add (local.get $w2) (local.get $step)))
      (local.set $a (v128.const i32x4 0 0 0 0))
      (local.set $b (local.get $a)) (local.set $c (local.get $a)) (local.set $d (local.get $a))
      (local.set $k (i32.const 0))
      (if (local.get $whole) (then (loop $along
        (local.set $at (i32.add (local.get $x) (i32.shl (local.get $k) (i32.const 2))))
        (local.set $low (v128.load (local.get $at)))
        (local.set $high (v128.load offset=16 (local.get $at)))
        (local.set $a (f32x4.add (local.get $a) (call $products (local.get $low) (local.get $high) (v128.load8x8_s (i32.add (local.get $w0) (local.get $k))))))
        (local.set $b (f32x4.add (local.get $b) (call $products (local.get $low) (local.get $high) (v128.load8x8_s (i32.add (local.get $w1) (local.get $k))))))
        (local.set $c (f32x4.add (local.get $c) (call $products (local.get $low) (local.get $high) (v128.load8x8_s (i32.add (local.get $w2) (local.get $k))))))
        (local.set $d (f32x4.add (local.get $d) (call $products (local.get $low) (local.get $high) (v128.load8x8_s (i32.add (local.get $w3) (local.get $k))))))
        (br_if $along (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 8))) (local.get $whole))))))
      (if (i32.lt_u (local.get $k) (local.get $inner)) (then (loop $rest ;; a number in lane 0
        (local.set $low (v128.load32_zero (i32.add (local.get $x) (i32.shl (local.get $k) (i32.const 2)))))
        (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $low) (call $integer (i32.add (local.get $w0) (local.get $k))))))
        (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $low) (call $integer (i32.add (local.get $w1) (local.get $k))))))
        (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $low) (call $integer (i32.add (local.get $w2) (local.get $k))))))
        (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $low) (call $integer (i32.add (local.get $w3) (local.get $k))))))
        (br_if $rest (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (local.get $inner))))))
      (local.set $a (call $lane_sums (local.get $a) (local.get $b) (local.get $c) (local.get $d)))
      (local.set $offset (i32.shl (local.get $column) (i32.const 2)))
      (local.set $at (i32.add (local.get $scales) (local.get $offset)))
      (if (local.get $one_by_one)
        (then
          (v128.store32_lane 0 (i32.add (local.get $out) (local.get $offset))
            (f32x4.mul (local.get $a) (v128.load32_zero (local.get $at))))
          (local.set $column (i32.add (local.get $column) (i32.const 1))))
        (else
          (v128.store (i32.add (local.get $out) (local.get $offset))
            (f32x4.mul (local.get $a) (v128.load (local.get $at))))
          (local.set $column (i32.add (local.get $column) (i32.const 4)))))
      (br_if $next (i32.lt_u (local.get $column) (local.get $columns)))))

  ;; Eight products of numbers and 16-bit integers, in pairs.
  (func $products (param $low v128) (param $high v128) (param $integers v128) (result v128)
    (f32x4.add
      (f32x4.mul (local.get $low) (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $integers))))
      (f32x4.mul (local.get $high) (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $integers))))))

  (func $integer (param $at i32) (result v128)
    (f32x4.splat (f32.convert_i32_s (i32.load8_s (local.get $at)))))

  ;; out[r] += sum over j of weights[r, j] * values[j]: the context of attention, and both
  ;; gradients of a linear layer. $count numbers j, $width is the length of out[r] and of
  ;; values[j]; $row_step and $count_step lead from weight to weight, along r and along j.
  (func (export "mix") (param $out i32) (param $weights i32) (param $values i32)
    (param $rows i32) (param $count i32) (param $width i32)
    (param $out_step i32) (param $row_step i32) (param $count_step i32) (param $values_step i32)
    (local $k i32) (local $whole i32) (local $j i32) (local $o i32) (local $p i32) (local $v i32)
    (local $weight v128) (local $a v128) (local $b v128) (local $c v128) (local $d v128) (local $sum f32)
    (if (i32.or (i32.eqz (local.get $rows)) (i32.eqz (local.get $count))) (then (return)))
    (local.set $whole (i32.and (local.get $width) (i32.const -64)))
    (loop $row
      (local.set $k (i32.const 0))
      (if (local.get $whole) (then (loop $sixteen ;; numbers of out[r] wait in registers
        (local.set $o (i32.add (local.get $out) (local.get $k)))
        (local.set $a (v128.load (local.get $o)))
        (local.set $b (v128.load offset=16 (local.get $o)))
        (local.set $c (v128.load offset=32 (local.get $o)))
        (local.set $d (v128.load offset=48 (local.get $o)))
        (local.set $v (i32.add (local.get $values) (local.get $k)))
        (local.set $p (local.get $weights))
        (local.set $j (local.get $count))
        (loop $along
          (local.set $weight (v128.load32_splat (local.get $p)))
          (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $weight) (v128.load (local.get $v)))))
          (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $weight) (v128.load offset=16 (local.get $v)))))
          (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $weight) (v128.load offset=32 (local.get $v)))))
          (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $weight) (v128.load offset=48 (local.get $v)))))
          (local.set $p (i32.add (local.get $p) (local.get $count_step)))
          (local.set $v (i32.add (local.get $v) (local.get $values_step)))
          (br_if $along (local.tee $j (i32.sub (local.get $j) (i32.const 1)))))
        (v128.store (local.get $o) (local.get $a))
        (v128.store offset=16 (local.get $o) (local.get $b))
        (v128.store offset=32 (local.get $o) (local.get $c))
        (v128.store offset=48 (local.get $o) (local.get $d))
        (br_if $sixteen (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 64))) (local.get $whole))))))
      (if (i32.lt_u (local.get $k) (local.get $width)) (then (loop $rest ;; one number of out[r]
        (local.set $o (i32.add (local.get $out) (local.get $k)))
        (local.set $sum (f32.load (local.get $o)))
        (local.set $v (i32.add (local.get $values) (local.get $k)))
        (local.set $p (local.get $weights))
        (local.set $j (local.get $count))
        (loop $along
          (local.set $sum (f32.add (local.get $sum) (f32.mul (f32.load (local.get $p)) (f32.load (local.get $v)))))
          (local.set $p (i32.add (local.get $p) (local.get $count_step)))
          (local.set $v (i32.add (local.get $v) (local.get $values_step)))
          (br_if $along (local.tee $j (i32.sub (local.get $j) (i32.const 1)))))
        (f32.store (local.get $o) (local.get $sum))
        (br_if $rest (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 4))) (local.get $width))))))
      (local.set $weights (i32.add (local.get $weights) (local.get $row_step)))
      (local.set $out (i32.add (local.get $out) (local.get $out_step)))
      (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

  ;; x = softmax(scale * x), in place; scale > 0. Scores of -inf get exactly 0.
  (func (export "softmax") (param $x i32) (param $length i32) (param $scale f32)
    (local $p i32) (local $end i32) (local $whole i32) (local $highest v128) (local $sum v128)
    (local $v v128) (local $scales v128)
    (if (i32.eqz (local.get $length)) (then (return)))
    (local.set $end (i32.add (local.get $x) (local.get $length)))
    (local.set $whole (i32.add (local.get $x) (i32.and (local.get $length) (i32.const -16))))
    (local.set $scales (f32x4.splat (local.get $scale)))
    ;; The highest score, in all lanes at the end.
    (local.set $highest (f32x4.splat (f32.const -inf)))
    (local.set $p (local.get $x))
    (if (i32.lt_u (local.get $p) (local.get $whole)) (then (loop $next
      (local.set $highest (f32x4.max (local.get $highest) (v128.load (local.get $p))))
      (br_if $next (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 16))) (local.get $whole))))))
    (if (i32.lt_u (local.get $p) (local.get $end)) (then (loop $rest
      (local.set $highest (f32x4.max (local.get $highest) (v128.load32_splat (local.get $p))))
      (br_if $rest (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (local.get $end))))))
    (local.set $highest (f32x4.max (local.get $highest)
      (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $highest) (local.get $highest))))
    (local.set $highest (f32x4.max (local.get $highest)
      (i8x16.shuffle 4 5 6 7 0 1 2 3 12 13 14 15 8 9 10 11 (local.get $highest) (local.get $highest))))
    ;; e to the power of each, and their sum.
    (local.set $p (local.get $x))
    (if (i32.lt_u (local.get $p) (local.get $whole)) (then (loop $next
      (local.set $v (call $exp (f32x4.mul (local.get $scales) (f32x4.sub (v128.load (local.get $p)) (local.get $highest)))))
      (v128.store (local.get $p) (local.get $v))
      (local.set $sum (f32x4.add (local.get $sum) (local.get $v)))
      (br_if $next (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 16))) (local.get $whole))))))
    (if (i32.lt_u (local.get $p) (local.get $end)) (then (loop $rest
      (local.set $v (call $exp (f32x4.mul (local.get $scales) (f32x4.sub (v128.load32_splat (local.get $p)) (local.get $highest)))))
      (v128.store32_lane 0 (local.get $p) (local.get $v))
      (local.set $sum (f32x4.add (local.get $sum) (v128.load32_zero (local.get $p))))
      (br_if $rest (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (local.get $end))))))
    ;; Divided by the sum.
    (local.set $sum (call $lane_sums (local.get $sum) (local.get $sum) (local.get $sum) (local.get $sum)))
    (local.set $p (local.get $x))
    (if (i32.lt_u (local.get $p) (local.get $whole)) (then (loop $next
      (v128.store (local.get $p) (f32x4.div (v128.load (local.get $p)) (local.get $sum)))
      (br_if $next (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 16))) (local.get $whole))))))
    (if (i32.lt_u (local.get $p) (local.get $end)) (then (loop $rest
      (v128.store32_lane 0 (local.get $p) (f32x4.div (v128.load32_zero (local.get $p)) (local.get $sum)))
      (br_if $rest (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (local.get $end)))))))

  ;; e to the power of x <= 0: x = n ln 2 + rest, and 2^n times the series of e^rest. ln 2
  ;; is subtracted in two parts, of which n times the first is exact. 0 below -87.
  (func $exp (param $x v128) (result v128) (local $n v128) (local $rest v128) (local $y v128)
    (local.set $n (f32x4.nearest (f32x4.mul (local.get $x) (f32x4.splat (f32.const 1.442695041))))) ;; 1 / ln 2
    (local.set $rest (f32x4.sub (local.get $x) (f32x4.mul (local.get $n) (f32x4.splat (f32.const 0.693359375)))))
    (local.set $rest (f32x4.sub (local.get $rest) (f32x4.mul (local.get $n) (f32x4.splat (f32.const -2.12194440e-4)))))
    (local.set $y (f32x4.splat (f32.const 0.00138888889))) ;; 1/6!, then 1/5!, 1/4!, …
    (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $rest)) (f32x4.splat (f32.const 0.00833333333))))
    (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $rest)) (f32x4.splat (f32.const 0.0416666667))))
    (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $rest)) (f32x4.splat (f32.const 0.166666667))))
    (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $rest)) (f32x4.splat (f32.const 0.5))))
    (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $rest)) (f32x4.splat (f32.const 1))))
    (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $rest)) (f32x4.splat (f32.const 1))))
    (local.set $y (f32x4.mul (local.get $y) (i32x4.shl ;; 2^n: n in the bits of an exponent
      (i32x4.add (i32x4.trunc_sat_f32x4_s (local.get $n)) (i32x4.splat (i32.const 127))) (i32.const 23))))
    (v128.bitselect (v128.const i32x4 0 0 0 0) (local.get $y)
      (f32x4.lt (local.get $x) (f32x4.splat (f32.const -87))))))
